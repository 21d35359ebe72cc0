"""Exceptions and results that keep all they hold when they are pickled, by every protocol, and copied."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self


class Copied:
    """To stand before the exception's class among the bases. Remembers what it was made with: an exception by itself
    is made anew from its message alone."""

    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls, *args)
        self._made_with = (args, kwargs)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (type(self), *self._made_with), dict(vars(self))


def _make(kind: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kind(*args, **kwargs)


class CopiedSlots:
    """Base of dataclasses with slots, which older protocols can't pickle by themselves."""

    __slots__ = ()

    def __getstate__(self) -> dict[str, Any]:
        state = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        return {**state, **getattr(self, "__dict__", {})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
