"""All of Unicode, and what of it a reader must not meet raw."""

import regex
from django.db import connection

from tests.soak.counts import SOAK

# Categories C and Z and the properties that make a character invisible, by Unicode's own names; and a few that draw
# nothing for no property's sake.
_HIDDEN = regex.compile(
    r"[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\p{White_Space}\p{Variation_Selector}\p{Bidi_Control}"
    r"\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159--[\ ]]",
    regex.V1,
)
# Ranges of tens of thousands that are all alike: taken by samples unless soaking.
_VAST = regex.compile(r"[\p{Cn}\p{Co}\p{Cs}\p{Lo}\p{So}--\p{Default_Ignorable_Code_Point}]", regex.V1)
_UNSTORABLE = regex.compile(r"[\x00\ud800-\udfff]")


def is_hidden(character: str) -> bool:
    """Whether nobody can see ``character``, or nobody can say how it looks."""
    return _HIDDEN.match(character) is not None


def hidden_in(text: str) -> set[str]:
    """The characters of ``text`` that nobody can see."""
    return set(_HIDDEN.findall(text))


def _everything() -> str:
    unicode = "".join(map(chr, range(0x110000)))
    vast = _VAST.findall(unicode)
    few = (
        vast
        if SOAK
        else [
            *vast[::211],
            *_HIDDEN.findall("\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159\ud800\ue000"),
        ]
    )
    return "x".join([*_VAST.sub("", unicode), *few])


# Each between two letters.
EVERYTHING = _everything()
# Without NUL and surrogates, which no database takes.
_STORABLE = _UNSTORABLE.sub("", EVERYTHING)
HIDDEN = hidden_in(_STORABLE)
# What each place draws: all that hides, and unless soaking some of what doesn't.
STORABLE = _STORABLE if SOAK else "x".join([*sorted(HIDDEN), *sorted(set(_STORABLE) - HIDDEN)[::97]])
# At the end of each text: what no property tells.
SUFFIX = "|pаy  q\tr\ns|\u200b"
# What of it stands in a place of one line, in one where a person speaks, and where nobody knows whose blanks are whose.
ON_A_LINE = "|⚠pаy␣␣q\\tr\\ns|\\u200b"
SPOKEN = "|⚠pаy␣␣q\tr\ns|\\u200b"
ANYWHERE = "|⚠pаy"


def for_a_column(length: int) -> str:
    """As much of it as a column of ``length`` characters takes in this database: everything in SQLite."""
    if connection.vendor == "sqlite":
        return str(STORABLE + SUFFIX)
    few = sorted(HIDDEN)
    room = length - len(SUFFIX)
    return "x".join(few[:: len(few) * 2 // room + 1])[:room] + SUFFIX
