"""One normal form for e-mail addresses, so that one person is one person however others have written the address.

Portal and runtime compare, and conditions see, this form alone. It follows RFC 6532 (UTF-8 addresses) with the
comparison of RFC 8265 (compatibility characters and case are folded) for the local part, and IDNA (UTS #46, RFC 5891)
for the domain, which is written as A-labels. Sub-addresses (``kim+shop@…``) are addresses of their own.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

import idna

from hookgate.copying import Copied

MAX_LENGTH: Final = 254  # octets of an address, RFC 5321 4.5.3.1.3 less the brackets
_MAX_LOCAL: Final = 64
_ATEXT: Final = frozenset("!#$%&'*+-/=?^_`{|}~")  # RFC 5322 3.2.3, beside letters and digits
# Default_Ignorable_Code_Point (Unicode's DerivedCoreProperties): nothing is drawn for them. First and last of each run.
UNSEEN: Final = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip


class NotAnAddress(Copied, ValueError):
    """The text is no e-mail address; the message says what to send, and names nothing of the text."""

    def __init__(self) -> None:
        super().__init__(
            "is no e-mail address; write it as kim@example.com, without a name or invisible characters"
        )


@lru_cache(maxsize=4096)
def normalize(text: str) -> str:
    """The normal form of an address: blanks around it dropped, Unicode form and case folded, the domain in A-labels.

    Raises :class:`NotAnAddress` for anything else than one address: a name beside it, invisible characters, quotes,
    comments, an address literal, a local part beyond 64 octets, more than 254 octets.
    """
    # Bounded before anything walks it.
    bare = text.strip() if len(text) <= 2 * MAX_LENGTH else ""
    if not bare or is_unseen(bare):
        raise NotAnAddress
    # Folded each by itself: ß and ss are the same letters before the @, and two domains behind it (RFC 5894 4.4).
    local, at, domain = unicodedata.normalize("NFKC", bare).rpartition("@")
    local = _fold(local)
    address = f"{local}@{_domain(domain)}"
    octets = len(local.encode("utf-8", "surrogatepass"))
    if not at or not _is_local(local) or octets > _MAX_LOCAL or len(address.encode()) > MAX_LENGTH:
        raise NotAnAddress
    return address


def find(text: str | None) -> str | None:
    """The normal form of ``text``, or ``None`` where it is no address."""
    try:
        return normalize(text) if text else None
    except NotAnAddress:
        return None


def is_unseen(text: str) -> bool:
    """Whether a text has a character for which nothing is drawn, or one that controls (categories Cc, Cs, Co)."""
    return any(
        unicodedata.category(character) in {"Cc", "Cs", "Co"}
        or any(first <= ord(character) <= last for first, last in UNSEEN)
        for character in text
    )


def _fold(text: str) -> str:
    # Folding case may undo the Unicode form, and the other way round (RFC 8264 7).
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def _is_local(local: str) -> bool:
    """A dot-atom of RFC 5322, with the letters, digits and marks of all scripts."""
    return all(
        atom and all(character in _ATEXT or unicodedata.category(character)[0] in "LMN" for character in atom)
        for atom in local.split(".")
    )


def _domain(domain: str) -> str:
    """A host name with a top-level domain, or ``localhost``: as the portal's accounts have always been checked."""
    try:
        found = idna.encode(domain, uts46=True, std3_rules=True).decode("ascii").lower().removesuffix(".")
    except (idna.IDNAError, UnicodeError):
        raise NotAnAddress from None
    *above, top = found.split(".")
    if (not above and top != "localhost") or top.isdigit():
        raise NotAnAddress
    return found
