"""The platform-neutral card: what people see, before an adapter renders it.

Every text in a card is plain text. An adapter must put it where its platform processes no markup, so that tool
arguments can't draw buttons, mentions, links or emphasis.
"""

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self

# Characters that change what a reader sees without being seen: C0/C1 controls but tab and newline, bidi controls,
# zero-width characters, fillers that draw nothing, line and paragraph separators, tag characters, variation selectors
# of plane 14, and lone surrogates, which no platform can be sent.
_INVISIBLE = (
    {*range(0x00, 0x09), 0x0B, 0x0C, *range(0x0D, 0x20), *range(0x7F, 0xA0), 0xAD, 0x61C, 0x180E, 0xFEFF}
    | {*range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070)}
    | {*range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080), *range(0xE0100, 0xE01F0), *range(0xD800, 0xE000)}
    | {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
)
_ESCAPES = {code: f"\\u{code:04x}" for code in _INVISIBLE}


class Tone(StrEnum):
    """What the card is about at a glance; adapters choose the colour."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    ENDED = "ended"
    NOTICE = "notice"


@dataclass(frozen=True)
class Field:
    """A labelled line: ``Agent: procurement``."""

    label: str
    text: str


@dataclass(frozen=True)
class Button:
    """A button that calls back. ``needs_whole_body`` takes it away when the body had to be cut."""

    key: str
    label: str
    style: str
    confirm_title: str = ""
    confirm_text: str = ""
    needs_whole_body: bool = False
    with_reason: bool = False


@dataclass(frozen=True)
class Reason:
    """The input for a reason, sent with the buttons that have ``with_reason``."""

    label: str
    required: bool
    max_length: int = 500


@dataclass(frozen=True)
class Card:
    """One card. ``body`` is the long text (the arguments), ``cut_notice`` replaces what of it doesn't fit."""

    title: str
    tone: Tone
    summary: str
    subtitle: str = ""
    fields: tuple[Field, ...] = ()
    body_label: str = ""
    body: str = ""
    cut_notice: str = ""
    buttons: tuple[Button, ...] = ()
    reason: Reason | None = None
    link_label: str = ""
    link_url: str = ""

    def to_json(self) -> dict[str, Any]:
        """The card as JSON values; :meth:`from_json` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Build the card that :meth:`to_json` described."""
        return cls(
            **{
                **value,
                "tone": Tone(value["tone"]),
                "fields": tuple(Field(**field) for field in value["fields"]),
                "buttons": tuple(Button(**button) for button in value["buttons"]),
                "reason": Reason(**value["reason"]) if value["reason"] else None,
            }
        )


def visible(text: str) -> str:
    """Show the characters that would reorder or hide text as ``\\u`` escapes; everything else stays."""
    return text.translate(_ESCAPES)


def fit(card: Card, *, body_bytes: int) -> Card:
    """Cut the body to ``body_bytes`` of UTF-8 on a character boundary.

    A card whose body was cut says so and loses every button that needs the whole body: nobody approves what they
    can't see.
    """
    encoded = card.body.encode("utf-8")
    if len(encoded) <= body_bytes:
        return card
    kept = encoded[:body_bytes].decode("utf-8", "ignore")
    return replace(
        card,
        body=f"{kept}\n{card.cut_notice}" if kept else card.cut_notice,
        buttons=tuple(button for button in card.buttons if not button.needs_whole_body),
    )


def hide_body(card: Card) -> Card:
    """The same card without its body, for a platform that refuses the content (DLP, length)."""
    return fit(card, body_bytes=0) if card.body else card
