"""What a chat shows of a call, and what a log keeps of a stranger."""

import io
import logging
from typing import Any

import pytest
from django.test import Client

from channels_app.adapters import feishu_card
from channels_app.cards import Card
from channels_app.models import Delivery
from portal.observe.logs import formatter
from tests.defects.office import Office, post, shown, tap

HOSTILE = [
    "pay\nPolicy: nobody",
    "<at id=all></at>",
    "[click](https://evil.test)",
    "**pay** ![x](https://evil.test/a.png)",
    "pay\u202eyap",
    "pay\u2028Approved by: bob",
    "p\u200bay\ufeff\u00ad\u3164",
    '"}},{"tag":"button"}',
]


@pytest.mark.parametrize("name", HOSTILE)
def test_an_invented_tool_name_draws_nothing(office: Office, name: str) -> None:
    """Known failure 30 of earlier systems: the model's own tool name went onto the card as markup."""
    hostile = office.ask(tool_name=name, summary=name, conversation_id=name, tool_args={name: name})
    plain = office.ask(tool_name="pay", summary="pay", conversation_id="pay", tool_args={"pay": "pay"})
    drawn = [_drawn(request) for request in (hostile, plain)]
    assert _shape(drawn[0]) == _shape(drawn[1])
    text = feishu_card.encode(drawn[0])
    assert not set("\u202e\u2028\u200b\ufeff\u00ad\u3164") & set(text)
    for node in _nodes(drawn[0]):
        assert node.get("tag") not in ("markdown", "lark_md", "at", "img")


def test_the_card_shows_all_of_the_call_or_offers_no_approval(office: Office) -> None:
    """Known failure 12 of earlier systems: after 800 characters the arguments just ended, and Approve was there."""
    for size, whole in ((900, True), (200_000, False)):
        request = office.ask(tool_args={"a": "x" * size, "payee": "Hidden-Ltd"})
        text = feishu_card.encode(_drawn(request))
        assert ("Hidden-Ltd" in text) is whole
        answer = tap(shown(request), "ou_bob")
        assert (answer.body["toast"]["type"] == "success") is whole
        assert office.state(request) == (("approved", 1) if whole else ("pending", 0))
    for word in (
        "Procurement (procurement)",
        "Acme",
        "Kim",
        "c7",
        "Decide by",
        "oa__purchase_pay",
        "payments",
    ):
        assert word in text, word
    page = Client()
    page.force_login(office.world.bob, backend="django.contrib.auth.backends.ModelBackend")
    assert "Hidden-Ltd" in page.get(f"/inbox/{request['id']}/?all").content.decode()


def _drawn(request: Any) -> dict[str, Any]:
    card = Delivery.objects.get(topic=f"confirmation:{request['id']}")
    return feishu_card.draw(feishu_card.fit(Card.from_json(card.card)), "r" * 24)


def _nodes(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return [value, *(node for child in value.values() for node in _nodes(child))]
    return [node for child in value for node in _nodes(child)] if isinstance(value, list) else []


def _shape(value: Any) -> Any:
    """The card without its texts and addresses: what nobody's words may change."""
    if isinstance(value, dict):
        return {
            name: ""
            if name in ("content", "url", "default_url") and isinstance(child, str)
            else _shape(child)
            for name, child in value.items()
        }
    return [_shape(child) for child in value] if isinstance(value, list) else value


def test_a_stranger_writes_no_line_of_the_log(office: Office, settings: Any) -> None:
    """Known failure 26 of earlier systems: bodies were logged before anybody had checked who sent them."""
    settings.LOG_FORMAT = "console"
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(formatter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        channel = office.world.channel
        body = b'{"token": "Body-Text", "note": "\\nForged-Line approved"}'
        headers = {
            "X-Lark-Signature": "Header-Text",
            "X-Lark-Request-Nonce": "Header-Text",
            "User-Agent": "a b\nForged-Line",
        }
        assert post(channel, body, headers).status == 401
        assert post(channel, b"x" * (1024 * 1024 + 1), headers).status == 413
        client = Client(raise_request_exception=False)
        client.post("/channels/acme/x%0AForged-Line/callback", body, "application/json")
        client.get("/api/v1/agents/%0AForged-Line/registry", headers={"Authorization": "Bearer Header-Text"})
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    text = lines.getvalue()
    assert "callback.refused" in text
    assert "Body-Text" not in text
    assert "Header-Text" not in text
    assert not [line for line in text.splitlines() if line.startswith("Forged-Line")]
    assert max(map(len, text.splitlines())) < 2000
