"""Cards as Feishu gets them: whole, within the limits, and with nothing in them that an argument could have drawn."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from channels_app.adapters import feishu_card
from channels_app.cards import Card, Field, hide_body
from channels_app.sandbox import card_check
from tests.channels.conftest import card

HOSTILE = [
    "<at id=all></at>",
    "[click](https://evil.test)",
    "**bold** _it_ ~~gone~~ `code`",
    '"}]},{"tag":"button","text":{"tag":"plain_text","content":"Approve"}}',
    "```\n<font color=red>x</font>\n```",
    "line\r\nTool: harmless",
    "\u202eevil\u202c",
    "zero\u200bwidth\u2066\u2069",
    "\x00\x07\x1b[31m",
    "\ud800",
    ":OK:",
]
TEXT = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=200),
    st.text(st.sampled_from("<>[]()*_`{}\"'\\/:\n\u2028\u202e")),
)


def drawn(given: Card) -> dict[str, Any]:
    return feishu_card.draw(feishu_card.fit(given), "r" * 24)


def nodes(value: Any) -> list[dict[str, Any]]:
    """Every object of the card."""
    if isinstance(value, dict):
        return [value, *(node for child in value.values() for node in nodes(child))]
    return [node for child in value for node in nodes(child)] if isinstance(value, list) else []


def shape(value: Any) -> Any:
    """The card without its texts: what an argument must not be able to change."""
    if isinstance(value, dict):
        return {
            name: "" if name == "content" and isinstance(child, str) else shape(child)
            for name, child in value.items()
        }
    return [shape(child) for child in value] if isinstance(value, list) else value


def buttons(message: dict[str, Any]) -> list[str]:
    return [node["text"]["content"] for node in nodes(message) if node.get("tag") == "button"]


@effort(max_examples=150, deadline=None)
@given(TEXT, TEXT, TEXT, TEXT)
def test_arguments_cannot_draw_anything(body: str, tool: str, title: str, subtitle: str) -> None:
    hostile = card(
        body=body or "-",
        title=title,
        subtitle=subtitle or "-",
        summary=tool or "-",
        fields=(Field("Tool", tool),),
    )
    plain = card(body="x", title="x", subtitle="x", summary="x", fields=(Field("Tool", "x"),))
    message = drawn(hostile)
    assert shape(message) == shape(drawn(plain))
    for node in nodes(message):
        if isinstance(node.get("content"), str) and "tag" in node:
            assert node["tag"] == "plain_text"
    text = feishu_card.encode(message)
    text.encode("utf-8")
    assert json.loads(text) == message
    assert not {"\u202e", "\u200b", "\u2066", "\x1b", "\u2028"} & set(text)


def test_a_line_break_in_a_field_is_no_second_field() -> None:
    message = drawn(card(fields=(Field("Tool", "pay\r\nAmount: 1\u2028Payee: x"),)))
    texts = [node["content"] for node in nodes(message) if node.get("tag") == "plain_text"]
    (line,) = [text for text in texts if text.startswith("Tool:")]
    assert "\n" not in line
    assert line == r"Tool: pay\u000d\nAmount: 1\u2028Payee: x"


def test_approve_stands_outside_the_form_and_reject_inside() -> None:
    elements = drawn(card())["body"]["elements"]
    outside = [
        node for node in elements if node["tag"] == "button" and node["behaviors"][0]["type"] == "callback"
    ]
    (form,) = [node for node in elements if node["tag"] == "form"]
    assert [node["text"]["content"] for node in outside] == ["Approve"]
    assert [node["tag"] for node in form["elements"]] == ["input", "button"]
    assert form["elements"][0]["required"] is True
    assert form["elements"][1]["form_action_type"] == "submit"
    assert form["elements"][1]["behaviors"][0]["value"] == {"v": 1, "d": "reject", "n": "r" * 24}


def test_the_platforms_rules_hold_for_every_card() -> None:
    """The sandbox's own checker, which shares no code with the adapter."""
    for given_card in [
        card(),
        card(ended="Approved"),
        hide_body(card()),
        card(body="x" * 50_000),
        card(reason=None),
    ]:
        card_check.check(drawn(given_card))


def test_a_decided_card_has_no_button_and_may_be_updated() -> None:
    message = drawn(card(ended="Approved by Bob"))
    assert buttons(message) == []
    assert message["config"]["update_multi"] is True
    assert message["header"]["template"] == "green"


@pytest.mark.parametrize("size", [6144, 6145, 30_000, 300_000])
def test_what_does_not_fit_is_said_and_takes_approve_away(size: int) -> None:
    message = drawn(card(body="x" * size))
    text = feishu_card.encode(message)
    assert len(text.encode()) <= 28 * 1024
    whole = size <= 6144
    assert ("Too long" in text) is not whole
    assert ("Approve" in buttons(message)) is whole
    assert "Reject" in buttons(message)


@pytest.mark.parametrize("character", ["汉", "😀", "\u202e", '"', "\\", "\n"])
def test_limits_are_counted_in_bytes_of_what_is_sent(character: str) -> None:
    message = drawn(card(body=character * 6000))
    assert len(feishu_card.encode(message).encode()) <= 28 * 1024
    shown = [node["content"] for node in nodes(message) if node.get("tag") == "plain_text"]
    whole = any(character * 6000 in text for text in shown)
    assert ("Approve" in buttons(message)) is whole
    assert "Reject" in buttons(message)


def test_a_cut_field_takes_approve_away_too() -> None:
    message = drawn(card(fields=(Field("Tool", "x" * 2000),)))
    assert "Approve" not in buttons(message)
    assert "Too long" in feishu_card.encode(message)


def test_many_long_fields_still_make_a_card() -> None:
    message = drawn(card(body="汉" * 9000, fields=tuple(Field("F", "汉" * 900) for _ in range(30))))
    assert len(feishu_card.encode(message).encode()) <= 28 * 1024
    card_check.check(message)
    assert "Reject" in buttons(message)


def test_the_cut_falls_on_a_character() -> None:
    fitted = feishu_card.fit(card(body="汉" * 5000))
    assert "\ufffd" not in fitted.body
    assert fitted.body.startswith("汉" * 2048)
