"""The platform-neutral card: what people see, before an adapter renders it.

Every text in a card is plain text. An adapter must put it where its platform processes no markup, so that tool
arguments can't draw buttons, mentions, links or emphasis, and passes it through :mod:`portal.lib.visible`.
"""

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self


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
