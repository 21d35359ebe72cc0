"""Matchers in registries that a release before contract version 3 published: with look-around and back references.

They go on as that release ran them, until the registry is built anew: by Python's engine, over the first characters,
and only where its estimate says that this ends in time. `(a+)+b` over thirty letters takes minutes, and can't be
stopped meanwhile; the estimate is coarse and errs on the safe side. Nothing that is declared today comes here.
"""

from __future__ import annotations

import re
from math import factorial
from typing import Final

from hookgate.matching import patterns
from hookgate.matching.matching import MatchError, Predicate, compile_matcher

MAX_SUBJECT: Final = 200
# Steps at worst, half a second or so.
_MAX_STEPS: Final = 5e8
_MAX_REPEATS: Final = 3
_SYMBOL: Final = r"""
    \\. | \[\^?\]?(?:\\.|[^\]\\])*\]            # one character, whichever
    | \(\?\#[^)]*\) | \(\?P=\w+\) | \(\?[a-zA-Z-]+\)   # comment, reference, flags
    | \((?:\?(?:P<\w+>|<?[=!]|>|\(\w+\)|[a-zA-Z-]*:))? | \) | \|
    | (?:[*+?]|\{\d+\}|\{\d*,\d*\})[?+]?
    | .
"""


class TooSlow(ValueError):
    """The expression could take too long."""


class _Group:
    """A sequence that is being read: how many parts repeat, and in how many ways the rest can match."""

    __slots__ = ("alternatives", "choices", "last", "most", "repeats")

    def __init__(self) -> None:
        self.repeats, self.choices = 0, 1.0
        self.most, self.alternatives = 0, 0.0
        self.last = (0, 1.0)

    def take(self, part: tuple[int, float]) -> None:
        self.repeats += self.last[0]
        self.choices *= self.last[1]
        self.last = part

    def alternate(self) -> None:
        self.take((0, 1.0))
        self.most = max(self.most, self.repeats)
        self.alternatives += self.choices
        self.repeats, self.choices = 0, 1.0

    def close(self) -> tuple[int, float]:
        self.alternate()
        return self.most, self.alternatives

    def repeat(self, low: int, high: int | None) -> None:
        repeats, choices = self.last
        if (low, high) == (0, 1):
            self.last = (repeats, choices + 1)
        elif low == high:
            self.last = (repeats * low, choices**low)
        elif repeats or choices > 1:
            raise TooSlow("it repeats something that can match in several ways")
        else:
            self.last = (1, 1.0)


def compile_published_matcher(matcher: str | None) -> Predicate | None:
    """As `compile_matcher`, for a matcher in a manifest. Raises MatchError."""
    try:
        return compile_matcher(matcher)
    except MatchError:
        old = _compile(matcher)
        if old is None:
            raise
        return lambda subject: old.search(subject[:MAX_SUBJECT]) is not None


def _compile(matcher: object) -> re.Pattern[str] | None:
    if not isinstance(matcher, str) or len(matcher) > patterns.MAX_PATTERN:
        return None
    try:
        compiled = re.compile(matcher)
        check(matcher)
    except (re.error, RecursionError, OverflowError, TooSlow):
        return None
    return compiled


def check(pattern: str) -> None:
    """Raise TooSlow for an expression (one that compiles) that could take more than about half a second
    over `MAX_SUBJECT` characters."""
    groups = [_Group()]
    try:
        for symbol in re.findall(_SYMBOL, pattern, re.VERBOSE | re.DOTALL):
            if symbol == ")":
                part = groups.pop().close()
                groups = groups or [_Group()]
                groups[-1].take(part)
            elif symbol == "|":
                groups[-1].alternate()
            elif symbol[0] in "*+?{" and symbol != "{":
                groups[-1].repeat(*_read_bounds(symbol))
            elif (symbol[0] == "(" and symbol[-1] != ")") or symbol.startswith("(?("):
                groups.append(_Group())
            else:
                groups[-1].take((0, 1.0))
        parts = [group.close() for group in groups]
        choices = 1.0
        for part in parts:
            choices *= part[1]
    except OverflowError:
        raise TooSlow("it can match in too many ways") from None
    repeats = sum(part[0] for part in parts)
    if repeats > _MAX_REPEATS:
        raise TooSlow(f"it repeats in more than {_MAX_REPEATS} places")
    if MAX_SUBJECT ** (repeats + 1) / factorial(repeats + 1) * choices > _MAX_STEPS:
        raise TooSlow("it can match in too many ways")


def _read_bounds(symbol: str) -> tuple[int, int | None]:
    simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(symbol[0])
    if simple is not None:
        return simple
    low, comma, high = symbol[1 : symbol.index("}")].partition(",")
    if not comma:
        return int(low), int(low)
    return int(low or 0), int(high) if high else None
