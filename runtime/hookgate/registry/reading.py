"""Typed access to a JSON object, with errors that name the place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from hookgate.copying import Copied
from hookgate.matching import matching

T = TypeVar("T")


class ManifestInvalid(Copied, ValueError):
    """A manifest that this runtime can't use. ``path`` is like ``hooks[2].params.max_calls``."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


@dataclass(frozen=True, slots=True)
class Reader:
    """One object of the document and the path to it. Every method raises ManifestInvalid."""

    value: Mapping[str, Any]
    path: str = ""

    @classmethod
    def of(cls, value: Any, path: str = "") -> Reader:
        """Read ``value``, which must be an object."""
        if not isinstance(value, Mapping):
            raise ManifestInvalid(path, "must be an object")
        return cls(value, path)

    def fail(self, key: str, message: str) -> NoReturn:
        """Say what is wrong with one member."""
        raise ManifestInvalid(self._at(key), message)

    def object(self, key: str) -> Reader:
        """A member that is an object."""
        return Reader.of(self._get(key, dict, "an object"), self._at(key))

    def objects(self, key: str, *, optional: bool = False) -> Iterator[Reader]:
        """The objects of a list."""
        if optional and self.value.get(key) is None:
            return
        for index, item in enumerate(self._get(key, list, "a list")):
            yield Reader.of(item, f"{self._at(key)}[{index}]")

    def text(self, key: str) -> str:
        """A member that is a text."""
        value: str = self._get(key, str, "a text")
        return value

    def optional_text(self, key: str) -> str | None:
        """A text, or None where it is null or missing."""
        return None if self.value.get(key) is None else self.text(key)

    def texts(self, key: str, *, optional: bool = False) -> tuple[str, ...]:
        """A list of texts."""
        if optional and self.value.get(key) is None:
            return ()
        values = self._get(key, list, "a list of texts")
        if not all(isinstance(value, str) for value in values):
            self.fail(key, "must be a list of texts")
        return tuple(values)

    def flag(self, key: str) -> bool:
        """A member that is true or false."""
        value: bool = self._get(key, bool, "true or false")
        return value

    def integer(self, key: str, low: int, high: int = 2**53 - 1) -> int:
        """A whole number within bounds."""
        value = self._get(key, int, "a whole number")
        if isinstance(value, bool) or not low <= value <= high:
            self.fail(key, f"must be a whole number of {low} to {high}")
        return int(value)

    def optional_seconds(self, key: str) -> float | None:
        """A positive number of seconds, or None."""
        value = self.value.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
            self.fail(key, "must be a number of seconds")
        return float(value)

    def choice(self, key: str, words: tuple[str, ...], *, default: str | None = None) -> str:
        """One of ``words``."""
        if default is not None and self.value.get(key) is None:
            return default
        value = self.text(key)
        if value not in words:
            self.fail(key, f"must be one of {', '.join(words)}")
        return value

    def compile(self, key: str, compiler: Callable[[str], T], source: str | None) -> T | None:
        """A compiled filter, matcher or condition, or None where there is none."""
        if source is None:
            return None
        try:
            return compiler(source)
        except matching.MatchError as error:
            self.fail(key, error.message)

    def _get(self, key: str, kind: type, words: str) -> Any:
        value = self.value.get(key)
        if not isinstance(value, kind):
            self.fail(key, f"must be {words}")
        return value

    def _at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key
