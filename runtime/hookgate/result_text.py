"""A tool's result as text: whatever it is, without end or not, readable or not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final

from hookgate import origin, texts

# What is nested deeper is not written out; nor is what has more parts, however few objects they share.
_DEEPEST: Final = 100
_MOST_PARTS: Final = 2_000_000
# How much is written of what can't be written as a whole.
_MOST_SHOWN: Final = 20_000
_TOO_MUCH: Final = "(too much to be shown)"
_SCALARS: Final = (str, int, float, bool, type(None))
_HUGE: Final = 10**4000


def as_text(value: Any) -> str:
    """A result as the model reads it: text as it is, everything else as JSON. What can't be shown says so."""
    if isinstance(value, str):
        return texts.readable(value)
    try:
        if not isinstance(value, dict | list | tuple) or _is_small(value):
            return texts.readable(json.dumps(value, ensure_ascii=False, default=_Plain().of_other))
    except BaseException as error:
        # Keys that are no text, digits without end, a subclass that raises.
        if origin.is_programs(error):
            raise
    plain = _Plain().of(value)
    return plain if isinstance(plain, str) else texts.readable(json.dumps(plain, ensure_ascii=False))


def _is_small(value: Any) -> bool:
    """Whether written out it is neither endless nor huge: a few lists that share each other can be both."""
    sizes: dict[int, int] = {}

    def measure(container: Any, depth: int) -> int:
        if depth > _DEEPEST:
            return _MOST_PARTS + 1
        known = sizes.get(id(container))
        if known is not None:
            return known
        # Until it is known: what holds itself has no end.
        sizes[id(container)] = _MOST_PARTS + 1
        total = len(container)
        for item in container.values() if isinstance(container, dict) else container:
            if isinstance(item, dict | list | tuple):
                total += measure(item, depth + 1)
        sizes[id(container)] = total
        return total

    return measure(value, 1) <= _MOST_PARTS


class _Plain:
    """Makes JSON of anything: whatever can't be shown becomes words that say so."""

    def __init__(self) -> None:
        self._left = _MOST_SHOWN
        self._open: set[int] = set()

    def of(self, value: Any) -> Any:
        """``value`` as JSON knows it."""
        if isinstance(value, str):
            return texts.readable(value)
        if isinstance(value, int) and not isinstance(value, bool) and not -_HUGE < value < _HUGE:
            return f"(a number of {int.bit_length(value)} bits, too long to be shown)"
        if isinstance(value, _SCALARS):
            return _scalar(value)
        if id(value) in self._open:
            return "(refers to what it is in)"
        if len(self._open) >= _DEEPEST:
            return f"(nested deeper than {_DEEPEST} levels, not shown)"
        self._open.add(id(value))
        try:
            return self.of_other(value)
        finally:
            self._open.discard(id(value))

    def of_other(self, value: Any) -> Any:
        """A container or an object."""
        try:
            return self._open_up(value)
        except BaseException as error:
            # Foreign properties and iterators may raise anything.
            if origin.is_programs(error):
                raise
            return _unshown(value)

    def _open_up(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                self._key(key): self.of(item) for key, item in self._first(value.items(), (_TOO_MUCH, "…"))
            }
        if isinstance(value, list | tuple | Set | frozenset):
            return [self.of(item) for item in self._first(value, _TOO_MUCH)]
        if isinstance(value, bytes | bytearray | memoryview):
            return _bytes(bytes(value))
        if (
            dataclasses.is_dataclass(value)
            and not isinstance(value, type)
            and _says_nothing(value, dataclass=True)
        ):
            return {one.name: self.of(getattr(value, one.name, None)) for one in dataclasses.fields(value)}
        dump = getattr(type(value), "model_dump", None)
        if callable(dump):
            return self.of(dump(value, mode="json"))
        if _says_nothing(value):
            return _unshown(value)
        text = texts.say(value)
        return _unshown(value) if text is None else text

    def _first(self, items: Iterable[Any], end: Any) -> Iterator[Any]:
        """As many as there is room for, and then ``end``."""
        for item in items:
            self._left -= 1
            if self._left < 0:
                yield end
                return
            yield item

    def _key(self, key: Any) -> str:
        made = self.of(key)
        return made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)


def _scalar(value: Any) -> Any:
    """A subclass of a JSON type may write itself as it likes; the plain value doesn't."""
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return value if type(value) is kind else kind(value)
    return value


def _bytes(data: bytes) -> str:
    try:
        return texts.readable(data.decode("utf-8"))
    except UnicodeDecodeError:
        return f"({len(data)} bytes that are no text)"


def _says_nothing(value: Any, *, dataclass: bool = False) -> bool:
    """Whether its text would be only where it lies in memory; of a dataclass, whether it has the generated one."""
    kind: Any = type(value)
    if kind.__str__ is not object.__str__:
        return False
    return dataclass or kind.__repr__ is object.__repr__


def _unshown(value: Any) -> str:
    return f"(a {texts.name_type(value)}, which can't be shown as text)"
