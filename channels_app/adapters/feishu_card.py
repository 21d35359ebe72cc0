"""Cards as Feishu's card JSON 2.0.

Every text is a ``plain_text`` object, in which Feishu processes no markup. Approve stands outside the form, because a
submit button first checks all required inputs of its form; buttons that take a reason stand inside, with the input.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from channels_app import cards
from channels_app.cards import Button, Card, Field, Reason, Tone
from portal.lib import visible

# Bytes. Feishu refuses a card of more than 30 KiB; its own style tags count too.
MAX_CARD = 28 * 1024
MAX_BODY = 6 * 1024
# (bytes of the body, characters of a field), tried in this order until the card is small enough.
_STEPS = ((MAX_BODY, 1000), (3000, 400), (1000, 200), (0, 60))
MAX_FIELDS = 20
NAME_PREFIX = "hg_"

_TEMPLATES = {
    Tone.PENDING: "orange",
    Tone.APPROVED: "green",
    Tone.REJECTED: "red",
    Tone.ENDED: "grey",
    Tone.NOTICE: "blue",
}
_STYLES = {"primary": "primary_filled", "danger": "danger_filled"}


def fit(card: Card) -> Card:
    """What of ``card`` Feishu can show: texts with invisible characters made visible, cut where they are too long.

    Whatever is cut takes the buttons away that need the whole body.
    """
    shown = _shown(card)
    for body_bytes, field_chars in _STEPS:
        fitted = _cut(shown, body_bytes=body_bytes, field_chars=field_chars)
        # A reference is 24 characters long; its length alone matters here.
        if len(encode(draw(fitted, "r" * 24)).encode("utf-8")) <= MAX_CARD:
            break
    return fitted


def draw(card: Card, ref: str) -> dict[str, Any]:
    """The card JSON 2.0 of a card that fits."""
    header: dict[str, Any] = {"title": _plain(card.title), "template": _TEMPLATES[card.tone]}
    if card.subtitle:
        header["subtitle"] = _plain(card.subtitle)
    return {
        "schema": "2.0",
        "config": {
            "update_multi": True,
            "enable_forward": False,
            "width_mode": "fill",
            "summary": {"content": card.summary or card.title},
        },
        "header": header,
        "body": {"direction": "vertical", "elements": list(_elements(card, ref))},
    }


def encode(message: dict[str, Any]) -> str:
    """The string that goes into ``content``."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def _plain(text: str) -> dict[str, Any]:
    return {"tag": "plain_text", "content": text}


def _elements(card: Card, ref: str) -> Iterator[dict[str, Any]]:
    if card.summary:
        yield {"tag": "div", "text": _plain(card.summary)}
    for field in card.fields:
        yield {"tag": "div", "text": _plain(f"{field.label}: {field.text}")}
    if card.body:
        body = f"{card.body_label}:\n{card.body}" if card.body_label else card.body
        yield {"tag": "div", "text": _plain(body)}
    in_form = [button for button in card.buttons if card.reason and button.with_reason]
    for button in card.buttons:
        if button not in in_form:
            yield _button(button, ref)
    if card.reason and in_form:
        yield _form(card.reason, in_form, ref)
    if card.link_url:
        yield {
            "tag": "button",
            "type": "text",
            "text": _plain(card.link_label or card.link_url),
            "behaviors": [{"type": "open_url", "default_url": card.link_url}],
        }


def _button(button: Button, ref: str) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "tag": "button",
        "name": f"{NAME_PREFIX}{button.key}",
        "type": _STYLES.get(button.style, "default"),
        "text": _plain(button.label),
        "behaviors": [{"type": "callback", "value": {"v": 1, "d": button.key, "n": ref}}],
    }
    if button.confirm_title:
        drawn["confirm"] = {"title": _plain(button.confirm_title), "text": _plain(button.confirm_text)}
    return drawn


def _form(reason: Reason, buttons: list[Button], ref: str) -> dict[str, Any]:
    entry = {
        "tag": "input",
        "name": "reason",
        "required": reason.required,
        "max_length": min(reason.max_length, 1000),
        "input_type": "multiline_text",
        "rows": 2,
        "placeholder": _plain(reason.label[:100]),
    }
    submits = [{**_button(button, ref), "form_action_type": "submit"} for button in buttons]
    return {"tag": "form", "name": f"{NAME_PREFIX}form", "elements": [entry, *submits]}


def _shown(card: Card) -> Card:
    return replace(
        card,
        title=visible.line(card.title),
        subtitle=visible.line(card.subtitle),
        summary=visible.line(card.summary),
        body=visible.block(card.body),
        body_label=visible.line(card.body_label),
        cut_notice=visible.line(card.cut_notice),
        fields=tuple(Field(visible.line(field.label), visible.line(field.text)) for field in card.fields),
        link_label=visible.line(card.link_label),
    )


def _cut(card: Card, *, body_bytes: int, field_chars: int) -> Card:
    short = replace(
        card,
        title=_shorten(card.title, 200),
        subtitle=_shorten(card.subtitle, 200),
        summary=_shorten(card.summary, 200),
        fields=tuple(
            replace(field, label=_shorten(field.label, 60), text=_shorten(field.text, field_chars))
            for field in card.fields[:MAX_FIELDS]
        ),
    )
    fitted = cards.fit(short, body_bytes=body_bytes)
    if short.fields == card.fields or fitted.body != short.body:
        return fitted
    # A field lost something: the card says so, and nobody approves what they can't see.
    kept = tuple(button for button in short.buttons if not button.needs_whole_body)
    return replace(short, body=f"{short.body}\n{short.cut_notice}".strip(), buttons=kept)


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
