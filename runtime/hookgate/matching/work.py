"""How much work a condition would be, judged before it is evaluated: nothing can interrupt the evaluator.

Read off the condition's words, without a grammar: which macros (`exists`, `map`, …) walk which collections, one inside
the other, and what their bodies read besides. The unit is one turn of a macro's body over one character of text, about
a microsecond; whatever can't be told is taken at its worst. For macros within macros the portal, which has a grammar,
sends the collections that they walk (``walks``); without them the size of the arguments stands in for each.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hookgate import canonical

LIMIT: Final = 1_000_000
MACROS: Final = frozenset({"all", "exists", "exists_one", "map", "filter"})
Walks = tuple[tuple[str, ...], ...]

# A list is copied for every item that `map` and `filter` add to it: four items cost what one turn does.
_COPIED: Final = 4
# Names in a body that one turn pays for.
_NAMES: Final = 8
# Characters that concatenating texts may copy.
_COPY_LIMIT: Final = 100 * LIMIT
_COUNTABLE: Final = 10**12
_TOKEN: Final = re.compile(
    r"""(?P<text>[bB]?[rR](?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*')
        |[bB]?(?:\"\"\"(?:\\.|.)*?\"\"\"|'''(?:\\.|.)*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<comment>//[^\n]*)|(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.)?\d+(?:[eE][+-]?\d+)?)
    |(?P<name>[A-Za-z_]\w*)|(?P<other>\S)""",
    re.VERBOSE | re.DOTALL,
)
_STEP: Final = re.compile(r"""(\[\])|\.?([A-Za-z_]\w*)|\["((?:\\.|[^"\\])*)"\]""")
_Path = tuple[str, ...]
_EACH: Final = "[]"


class TooMuchWork(ValueError):
    """The condition would take too long."""


@dataclass
class Macro:
    """One macro: what it walks, where that is a plain path or another macro's result, and what its body reads."""

    kind: str
    parent: Macro | None
    walks: _Path | Macro | None
    variable: str = ""
    names: int = 0
    reads: list[_Path] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """1 for a macro in no other's body."""
        return 1 if self.parent is None else self.parent.depth + 1

    @property
    def copies(self) -> bool:
        """Whether its result is a list that grows item by item."""
        return self.kind in ("map", "filter")


@dataclass(frozen=True)
class Outline:
    """A condition's macros, and how many times it writes ``+``."""

    macros: tuple[Macro, ...]
    pluses: int
    length: int

    @property
    def depth(self) -> int:
        """How many macros lie within one another at most."""
        return max((macro.depth for macro in self.macros), default=0)

    @property
    def simple(self) -> bool:
        """Whether its work is about that of reading its input."""
        return not self.macros and self.pluses < 3


def read_walks(value: Any) -> Walks | None:
    """``walks`` of a manifest, ``[["args.to", "args.blocked"]]``; null where there are none. Raises ValueError."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(map(_is_chain, value)):
        raise ValueError("must be lists of collections")
    return tuple(tuple(chain) for chain in value)


def _is_chain(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def outline(source: str, variables: frozenset[str]) -> Outline:
    """Read a condition that compiles. ``variables`` are those that it can be evaluated over."""
    return _Scanner(source, variables).scan()


def rename(source: str, function: str, name: str) -> str:
    """The condition with calls of ``function`` written as calls of ``name``."""
    matches = [match for match in _TOKEN.finditer(source) if match.lastgroup != "comment"]
    calls = [
        match.span()
        for match, after in itertools.pairwise(matches)
        if match.group() == function and after.group() == "("
    ]
    for start, end in reversed(calls):
        source = f"{source[:start]}{name}{source[end:]}"
    return source


class _Scanner:
    """Goes through the words once, and keeps the brackets that are open, each with the macro that it opens."""

    def __init__(self, source: str, variables: frozenset[str]) -> None:
        self._words = [
            (match.lastgroup or "", match.group())
            for match in _TOKEN.finditer(source)
            if match.lastgroup != "comment"
        ]
        self._length = len(source)
        self._variables = variables
        self._open: list[Macro | None] = []
        # The macro whose call a bracket has just closed, by the closing word's place.
        self._closed: dict[int, Macro] = {}
        self._macros: list[Macro] = []

    def scan(self) -> Outline:
        pluses = 0
        for place, (kind, word) in enumerate(self._words):
            if kind == "name":
                self._take_name(place, word)
            elif word in "([{" and kind == "other":
                self._open.append(self._macros[-1] if self._opens_macro(place) else None)
            elif word in ")]}" and kind == "other" and self._open:
                macro = self._open.pop()
                if macro is not None:
                    self._closed[place] = macro
            pluses += word == "+" and kind == "other"
        return Outline(tuple(self._macros), pluses, self._length)

    def _word(self, place: int) -> str:
        return self._words[place][1] if 0 <= place < len(self._words) else ""

    def _is_macro(self, place: int) -> bool:
        return self._word(place) in MACROS and self._word(place - 1) == "." and self._word(place + 1) == "("

    def _opens_macro(self, place: int) -> bool:
        return self._words[place][1] == "(" and self._is_macro(place - 1)

    def _inside(self) -> Macro | None:
        return next((macro for macro in reversed(self._open) if macro is not None), None)

    def _take_name(self, place: int, word: str) -> None:
        inside = self._inside()
        if self._is_macro(place):
            macro = Macro(word, inside, self._find_walked(place - 1))
            macro.variable = self._word(place + 2)
            self._macros.append(macro)
            return
        if inside is not None:
            inside.names += 1
        if self._word(place - 1) == "." or self._word(place + 1) == "(" or word not in self._variables:
            return
        if inside is None or any(word == macro.variable for macro in _outwards(inside)):
            return
        path, end = self._read_path(place)
        if not self._is_macro(end + 2):
            inside.reads.append(path)

    def _read_path(self, place: int) -> tuple[_Path, int]:
        """The names joined by dots from here on, method calls left out, and the place of the last one."""
        path = [self._word(place)]
        while (
            self._word(place + 1) == "."
            and self._words[place + 2 : place + 3]
            and self._words[place + 2][0] == "name"
            and self._word(place + 3) != "("
        ):
            place += 2
            path.append(self._word(place))
        return tuple(path), place

    def _find_walked(self, dot: int) -> _Path | Macro | None:
        """What stands before a macro: names joined by dots, or another macro's call; None for anything else."""
        if dot - 1 in self._closed:
            return self._closed[dot - 1]
        path: list[str] = []
        place = dot - 1
        while place >= 0 and self._words[place][0] == "name":
            path.insert(0, self._word(place))
            if self._word(place - 1) != ".":
                return tuple(path)
            place -= 2
        return None


def _outwards(macro: Macro | None) -> Iterator[Macro]:
    while macro is not None:
        yield macro
        macro = macro.parent


def check(found: Outline, walks: Walks | None, bound: Mapping[str, Any], args: Any) -> None:
    """Raise TooMuchWork if evaluating the condition over ``bound`` would take longer than it may.

    ``bound`` are the variables as the evaluator gets them, ``args`` the call's whole arguments.
    """
    data = _Data(bound)
    turns = sum(data.turns(macro) for macro in found.macros if macro.depth == 1)
    if found.depth > 1:
        turns = max(turns, _nested(found, walks, data, args))
    # Texts that are joined are copied anew each time; what `map` makes of them may be joined again.
    growth = (1 + found.pluses) ** 2
    for macro in found.macros:
        growth *= max(1, macro.names) if macro.kind == "map" and found.pluses else 1
    copied = growth * (data.weight + found.length) if found.pluses else 0
    if turns > LIMIT or copied > _COPY_LIMIT:
        steps = max(turns, copied // 100)
        said = f"{steps:,}" if steps < _COUNTABLE else f"over {_COUNTABLE:,}"
        raise TooMuchWork(f"the condition would take too long: {said} steps, at most {LIMIT:,}")


def _nested(found: Outline, walks: Walks | None, data: _Data, args: Any) -> int:
    if walks is None:
        size = max(_canonical_size(args), data.weight)
        return int(size**found.depth)
    inner = [macro for macro in found.macros if macro.depth > 1]
    names = 1 + max(macro.names for macro in inner) // _NAMES
    longest = max((data.weigh(path) for macro in inner for path in macro.reads), default=1)
    total = 0
    for chain in walks:
        turns = data.product(chain)
        if any(macro.copies for macro in inner):
            turns *= max(1, data.product(chain[-1:]) // _COPIED)
        total += turns * max(1, longest, *(data.longest(member) for member in chain))
    return total * names


def _canonical_size(args: Any) -> int:
    try:
        return len(canonical.canonicalize(args))
    except (canonical.NotCanonical, RecursionError):
        return LIMIT


class _Data:
    """The sizes of what a condition reads, each found once."""

    def __init__(self, bound: Mapping[str, Any]) -> None:
        self._bound = bound
        self._weights: dict[_Path, int] = {}

    @property
    def weight(self) -> int:
        """Of everything together."""
        return self.weigh(())

    def weigh(self, path: _Path) -> int:
        """Characters and values of what lies at a path."""
        if path not in self._weights:
            values = [*_find(self._bound, path)] if path else [*self._bound.values()]
            self._weights[path] = max(1, sum(map(_weigh, values)))
        return self._weights[path]

    def turns(self, macro: Macro) -> int:
        """The work of a macro that lies in no other's body, those within its body left out."""
        size = self._size(macro.walks)
        body = max((self.weigh(path) for path in macro.reads), default=1)
        work = size * max(1, body) * (1 + macro.names // _NAMES)
        return work + (size * size // _COPIED if macro.copies else 0)

    def _size(self, walked: _Path | Macro | None) -> int:
        while isinstance(walked, Macro):
            walked = walked.walks
        if walked is None or walked[0] not in self._bound:
            return self.weight
        return max((_length(value) for value in _find(self._bound, walked)), default=0)

    def product(self, chain: tuple[str, ...]) -> int:
        """The sizes of the collections of one chain of ``walks``, multiplied."""
        result = 1
        for member in chain:
            result *= sum(self._length(term) for term in member.split(" + "))
        return result

    def _length(self, term: str) -> int:
        if term.isdigit():
            return int(term)
        path = read_path(term)
        if path is None or path[0] not in self._bound:
            return self.weight
        return max((_length(value) for value in _find(self._bound, path)), default=0)

    def longest(self, member: str) -> int:
        """The longest text in the items of a collection, or the number of values of its largest item."""
        found = 1
        for term in member.split(" + "):
            path = None if term.isdigit() else read_path(term)
            if path is not None and path[0] in self._bound:
                found = max([found, *map(_longest, _find(self._bound, path))])
            elif not term.isdigit():
                found = max(found, self.weight)
        return found


def read_path(text: str) -> _Path | None:
    """``args.orders[].items`` as ``("args", "orders", "[]", "items")``; None for what is no path."""
    path: list[str] = []
    place = 0
    while place < len(text):
        match = _STEP.match(text, place)
        if match is None:
            return None
        each, name, quoted = match.groups()
        path.append(_EACH if each else name if name is not None else re.sub(r"\\(.)", r"\1", quoted))
        place = match.end()
    return tuple(path) if path else None


def _find(value: Any, path: _Path) -> Iterator[Any]:
    """Every value that lies at ``path``."""
    level = [value]
    for step in path:
        if step == _EACH:
            level = [item for one in level for item in _items(one)]
        else:
            level = [one[step] for one in level if isinstance(one, Mapping) and step in one]
    yield from level


def _items(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple | set | frozenset) else ()


def _length(value: Any) -> int:
    return len(value) if isinstance(value, Mapping | list | tuple | set | frozenset) else 0


def _weigh(value: Any) -> int:
    total, level = 0, [value]
    while level:
        below: list[Any] = []
        for item in level:
            total += len(item) if isinstance(item, str | bytes) else 1
            if isinstance(item, Mapping):
                total += sum(len(key) for key in item if isinstance(key, str))
            below += _items(item)
        level = below
    return total


def _longest(collection: Any) -> int:
    """Of one collection: its longest text, keys included, or the values of its largest item."""
    found = 1
    for item in [*_items(collection), *(collection if isinstance(collection, Mapping) else ())]:
        level, values = [item], 0
        while level:
            values += len(level)
            found = max([found, *(len(one) for one in level if isinstance(one, str | bytes))])
            level = [below for one in level for below in _items(one)]
        found = max(found, values)
    return found
