"""Texts that models and strangers wrote, so that a reader sees every character of them.

THE filter of whatever draws such a text: cards, pages, notices, e-mail, log lines, output of commands. What draws
nothing, or turns the direction of writing, is shown as ``\\uXXXX``, chosen by Unicode property (of the Unicode version
that the library ``regex`` carries), so that a character which Unicode adds tomorrow is covered tomorrow: controls,
format characters, default-ignorable, unassigned and private code points, lone surrogates, and every blank but U+0020.
That takes joined emoji apart and shows variation selectors; nobody approves by the colour of a heart. Runs of blanks
are drawn as ``␣``, marks that pile up or stand on nothing as escapes, and ``⚠`` stands before a word that mixes scripts
(:mod:`portal.lib.scripts`).

All functions take any text, and time in proportion to its length. What was shown may be shown again: it stays as it is,
but for a word after a backslash and a hidden character, which may get its mark later.
"""

import json
from typing import Any

import regex

from portal.lib import scripts

BLANK = "␣"
WARNING = "⚠"
# More blanks than this in a row are counted instead of drawn; and at the start of a line of a block, so many are
# indentation: arguments are at most 32 levels deep.
MOST_BLANKS = 8
MOST_INDENTATION = 80
# UTS #39, section 5.4: no letter of a living language carries more marks that take no room of their own.
MOST_MARKS = 4

# Beside the properties: what is assigned, no blank by property, and draws nothing all the same.
_HIDDEN = (
    r"\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{White_Space}"
    r"\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159"
)
_LINE = regex.compile(rf"[[{_HIDDEN}]--[\ ]]", regex.V1)
_BLOCK = regex.compile(rf"[[{_HIDDEN}]--[\ \n]]", regex.V1)
_SPEECH = regex.compile(rf"[[{_HIDDEN}]--[\ \n\t]]", regex.V1)
# An escape that is there already is no base for a mark, and no part of a word.
# Of more than four digits the rest may be letters that follow; a word may lose them, a mark its letter may not.
_ESCAPE = r"\\(?:u[0-9a-fA-F]{4}(?:[0-9a-fA-F]{1,2}(?!\p{M}))?|[^\p{M}])"
_SHORT_ESCAPE = r"\\(?:u[0-9a-fA-F]{4}|[^\p{M}])"
_MARKS = regex.compile(rf"(?P<escape>{_SHORT_ESCAPE})|(?P<base>[\p{{L}}\u25cc]?)(?P<marks>\p{{M}}+)")
# What is shown as an escape parts words, so that a text that was shown once has the same words.
_WORDS = regex.compile(rf"{_ESCAPE}|[[\p{{L}}\p{{M}}\p{{N}}\p{{Pc}}]--[{_HIDDEN}]]+", regex.V1)
# Every word, so that no character is looked at twice; properties are only asked of what is not ASCII.
_ANY_WORDS = regex.compile(
    r"[a-zA-Z0-9_]++(?:(?=[^\x00-\x7f])[\p{L}\p{M}\p{N}\p{Pc}]++)?"
    r"|(?=[^\x00-\x7f])[\p{L}\p{M}\p{N}\p{Pc}]++",
    regex.V1,
)
_MARK = regex.compile(r"\p{M}")
_NO_ROOM = regex.compile(r"[\p{Mn}\p{Me}]")
_LINE_BLANKS = regex.compile(r"^ +| {2,}| +$")
_BLOCK_BLANKS = regex.compile(rf"(?m:^) {{{MOST_INDENTATION + 1},}}|(?<=[^\n ]) {{2,}}")
_NAMED = {"\n": "\\n", "\t": "\\t"}


def line(text: str) -> str:
    """``text`` for a place that is one line: line breaks and tabs are shown too, as ``\\n`` and ``\\t``."""
    return str(_LINE_BLANKS.sub(_blanks, _characters(text, _LINE)))


def block(text: str) -> str:
    """``text`` for a place of several lines: line breaks and indentation stay."""
    return str(_BLOCK_BLANKS.sub(_blanks, _characters(text, _BLOCK)))


def speech(text: str) -> str:
    """What a person wrote in their own words, such as a reason: as a block, and tabs stay too."""
    return str(_BLOCK_BLANKS.sub(_blanks, _characters(text, _SPEECH)))


def dump(value: Any) -> str:
    """A JSON value for reading: indented, as a block."""
    return block(json.dumps(value, ensure_ascii=False, indent=2))


def plain(text: str) -> str:
    """``text`` with what is hidden shown and nothing else: for output whose lines and columns are ours."""
    return str(_SPEECH.sub(_escaped, text))


def plain_line(text: str) -> str:
    """As :func:`plain`, on one line: for logs."""
    return str(_LINE.sub(_escaped, text))


def page_text(text: str) -> str:
    """A piece of a page: as :func:`speech`, but blanks stay, as most of them are the page's own."""
    return _characters(text, _SPEECH)


def machine_json(text: str) -> str:
    """JSON that programs read: what is hidden as JSON's own escapes, so that it reads back as it was."""
    return str(_SPEECH.sub(_escaped_for_json, text))


def hides(text: str) -> bool:
    """Whether there is anything in ``text`` that :func:`plain` would show."""
    return _SPEECH.search(text) is not None


def is_suspicious(text: str) -> bool:
    """Whether :func:`page_text` may find anything in ``text``; faster than asking it."""
    # Properties are dear to ask for, and a page has few different characters.
    distinct = "".join(set(text))
    if _SPEECH.search(distinct) or _MARK.search(distinct):
        return True
    if not any(character.isalpha() and not character.isascii() for character in distinct):
        return False
    return any(scripts.is_mixed(word) for word in set(_ANY_WORDS.findall(text)))


def _characters(text: str, hidden: Any) -> str:
    if not text.isascii():
        text = _WORDS.sub(_marked, _MARKS.sub(_pile, text))
    return str(hidden.sub(_escaped, text))


def _code(character: str) -> str:
    return _NAMED.get(character) or f"\\u{ord(character):04x}"


def _escaped(found: Any) -> str:
    return _code(found[0])


def _escaped_for_json(found: Any) -> str:
    return json.dumps(found[0])[1:-1]


def _marked(found: Any) -> str:
    word: str = found[0]
    if word.isascii() or word[0] == "\\" or not scripts.is_mixed(word):
        return word
    start = found.start()
    is_marked = start and found.string[start - 1] == WARNING
    return word if is_marked else f"{WARNING}{word}"


def _pile(found: Any) -> str:
    """A letter with its marks: those that pile up, repeat, hide or have no letter below them as escapes."""
    if found["escape"] is not None:
        return str(found[0])
    base, marks = str(found["base"]), str(found["marks"])
    height, last, place = 0, "", 0
    for place, mark in enumerate(marks if base else ""):  # noqa: B007  # where it ended counts
        if _LINE.match(mark):
            break
        if _NO_ROOM.match(mark):
            height += 1
            if height > MOST_MARKS or mark == last:
                break
        last = mark
    else:
        place = len(marks) if base else 0
    return base + marks[:place] + "".join(map(_code, marks[place:]))


def _blanks(found: Any) -> str:
    count = len(found[0])
    return BLANK * count if count <= MOST_BLANKS else f"{BLANK}×{count}"
