"""Names that somebody who mistyped one may have meant."""

import difflib
from collections.abc import Iterable

# Comparing takes the product of two lengths, for every name: both, and their number, are bounded.
_MAX_NAMES = 2000
_MAX_LENGTH = 128


def find(name: str, known: Iterable[str], *, count: int = 3) -> list[str]:
    """At most ``count`` of the ``known`` names that look most like ``name``, the nearest first."""
    names = [one for one in sorted(set(known))[:_MAX_NAMES] if len(one) <= _MAX_LENGTH]
    if len(name) > _MAX_LENGTH:
        return []
    return difflib.get_close_matches(name, names, n=count)


def suggest(name: str, known: Iterable[str]) -> str:
    """``did you mean a, b or c?``, or an empty text where nothing is near."""
    return ask(find(name, known))


def ask(names: list[str]) -> str:
    """``did you mean a, b or c?`` for these names; an empty text for none."""
    if not names:
        return ""
    *first, last = names
    return f"did you mean {', '.join(first)} or {last}?" if first else f"did you mean {last}?"
