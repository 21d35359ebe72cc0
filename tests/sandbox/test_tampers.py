"""Callbacks that the portal must refuse: each is spoiled in exactly the way that its name says."""

import json

import pytest

from channels_app.sandbox import callbacks
from tests.machinery.live import until
from tests.sandbox.conftest import APP_ID, decrypt, is_signed, pending


def press(server, message_id, **more):
    return server.control("press", message_id=message_id, open_id="ou_bob", button="Approve", **more)


def test_skew_moves_the_signed_time(api, server, peer):
    press(server, api.sent(pending()), skew_seconds=-301)
    assert peer.requests[0]["headers"]["X-Lark-Request-Timestamp"] == "1765999699"
    assert is_signed(peer.requests[0])


def spoiled(api, server, peer, tamper):
    report = press(server, api.sent(pending()), tamper=tamper)
    assert report["sent"] is True
    # On a busy machine the sender may have given up before the receiver began.
    return until(lambda: peer.requests[-1:], what="the callback")[0]


@pytest.mark.parametrize(
    ("tamper", "path"),
    [
        ("token", ("header", "token")),
        ("app_id", ("header", "app_id")),
        ("tenant", ("header", "tenant_key")),
        ("event_type", ("header", "event_type")),
        ("message_id", ("event", "context", "open_message_id")),
        ("chat_id", ("event", "context", "open_chat_id")),
    ],
)
def test_foreign_content_is_signed_properly(api, server, peer, tamper, path):
    genuine_id = api.sent(pending())
    press(server, genuine_id)
    genuine = peer.payload()
    request = spoiled(api, server, peer, tamper)
    assert is_signed(request)
    spoilt = peer.payload()
    for key in path:
        genuine, spoilt = genuine[key], spoilt[key]
    assert spoilt != genuine


@pytest.mark.parametrize(
    "tamper", ["garbage", "truncated", "bad_padding", "not_json", "wrong_key", "oversize"]
)
def test_unreadable_envelopes_are_signed_properly(api, server, peer, tamper):
    request = spoiled(api, server, peer, tamper)
    assert is_signed(request)
    with pytest.raises(ValueError):
        json.loads(decrypt(json.loads(request["body"])["encrypt"]))


@pytest.mark.parametrize(
    "tamper",
    [
        "signature",
        "signature_empty",
        "signature_short",
        "signature_not_hex",
        "signature_upper",
        "timestamp_text",
        "nonce",
        "body",
        "reserialized",
    ],
)
def test_signatures_that_do_not_hold(api, server, peer, tamper):
    assert not is_signed(spoiled(api, server, peer, tamper))


def test_missing_headers(api, server, peer):
    assert "X-Lark-Signature" not in spoiled(api, server, peer, "signature_missing")["headers"]
    assert "X-Lark-Request-Timestamp" not in spoiled(api, server, peer, "timestamp_missing")["headers"]
    assert "X-Lark-Request-Nonce" not in spoiled(api, server, peer, "nonce_missing")["headers"]
    assert not any(
        name.lower().startswith("x-lark") for name in spoiled(api, server, peer, "unsigned")["headers"]
    )


def test_plain_and_empty_bodies(api, server, peer, now):
    request = spoiled(api, server, peer, "plain")
    assert is_signed(request)
    assert json.loads(request["body"])["header"]["app_id"] == APP_ID
    assert json.loads(spoiled(api, server, peer, "plain_unsigned")["body"])["schema"] == "2.0"
    assert spoiled(api, server, peer, "empty")["body"] == b""
    lower = spoiled(api, server, peer, "lower_headers")
    assert "x-lark-signature" in lower["headers"]


def test_every_tamper_is_sent(api, server, peer, now):
    for tamper in callbacks.TAMPERS:
        now.now += 1
        spoiled(api, server, peer, tamper)
    assert len(peer.requests) == len(callbacks.TAMPERS)


def test_set_forges_any_field(api, server, peer):
    changes = {"event.operator.open_id": "ou_alice", "event.action.value": None, "header.event_id": "e-1"}
    press(server, api.sent(pending()), set=changes)
    payload = peer.payload()
    assert payload["event"]["operator"]["open_id"] == "ou_alice"
    assert "value" not in payload["event"]["action"]
    assert payload["header"]["event_id"] == "e-1"
    assert is_signed(peer.requests[0])
