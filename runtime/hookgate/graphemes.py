"""Where a text may be cut, so that nobody reads half a character."""

from __future__ import annotations

import unicodedata
from typing import Final

# A letter with more marks than this is no letter of any language, and is cut.
_MAX_BACK: Final = 32
_JOINER: Final = "\u200d"
_MARKS: Final = frozenset({"Mn", "Mc", "Me"})


def find_boundary(text: str, at: int) -> int:
    """The last place at or before ``at`` that lies between two characters as people see them.

    Not within: a letter and its marks, emoji that are joined or toned, the letters of one decomposed
    Korean syllable, a surrogate pair, a line end of two characters. Flags may be cut in two.
    """
    for place in range(at, max(0, at - _MAX_BACK), -1):
        if place >= len(text) or not _continues(text[place - 1], text[place]):
            return place
    return at if at > _MAX_BACK else 0


def _continues(before: str, after: str) -> bool:
    if after < "\x80":
        return before == "\r" and after == "\n"
    return (
        after == _JOINER
        or before == _JOINER
        or unicodedata.category(after) in _MARKS
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or ("\u1160" <= after <= "\u11ff" and "\u1100" <= before <= "\ud7a3")
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
    )
