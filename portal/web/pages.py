"""The last gate of every page: whatever a template forgot, no page hides a character from its reader.

Templates and screens pass what models and strangers wrote through :mod:`portal.lib.visible` where they draw it, because
only they know whether a blank or a line break is part of the text. What a page can be told without knowing (hidden
characters, piled-up marks, words of mixed scripts) is done here once more, for messages, pick lists, titles and what
libraries draw. Values of form fields stay what they are: a form that is sent back must not change them.
"""

from typing import Any

import regex
from django.http import HttpResponse, HttpResponseBase

from portal.lib import visible

# Left alone: code, what is typed in a form's field, remarks. Everything else is a tag or a text.
_PIECES = regex.compile(
    r"""(?isx)
    (?P<left> <(script|style|textarea)\b.*?</\2\s*> | <!--.*?--> )
    | (?P<tag> <[a-z/!](?:[^>"']|"[^"]*"|'[^']*')*+> )
    | (?P<text> [^<]+ | < )
    """
)
# Attributes that people see or hear.
_SHOWN = regex.compile(r'(?i)(?<=\s)((?:title|aria-label|alt|placeholder|label|data-label)=")([^"]*)')


def reveal(response: HttpResponseBase) -> None:
    """Show what the page hides, if it hides anything."""
    if not isinstance(response, HttpResponse) or not response.get("Content-Type", "").startswith("text/html"):
        return
    if response.content.isascii():
        return
    page = response.content.decode(response.charset)
    shown = show(page)
    if shown != page:
        response.content = shown.encode(response.charset)
        if "Content-Length" in response:
            response["Content-Length"] = str(len(response.content))


def show(page: str) -> str:
    """``page``, HTML, with every hidden character of its texts shown."""
    return str(_PIECES.sub(_piece, page)) if visible.is_suspicious(page) else page


def _piece(found: Any) -> str:
    piece: str = found[0]
    if piece.isascii() or found["left"] is not None:
        return piece
    if found["tag"] is not None:
        return str(_SHOWN.sub(_attribute, piece))
    return visible.page_text(piece)


def _attribute(found: Any) -> str:
    return str(found[1]) + visible.page_text(found[2])
