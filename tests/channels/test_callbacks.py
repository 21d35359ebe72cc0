"""What the Feishu adapter makes of a request before it believes any of it: vectors, and one thing changed in each."""

import base64
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from channels_app.adapters import feishu_crypto
from channels_app.adapters.base import Answer, CallbackRefused, InboundRequest, Tap
from channels_app.adapters.feishu import FeishuAdapter, FeishuConfig
from portal.lib import clock

VECTORS = json.loads((Path(__file__).parents[1] / "sandbox" / "feishu_vectors.json").read_text())
KEY, TOKEN = VECTORS["encrypt_key"], VECTORS["verification_token"]
APP = "cli_a5fb0ae6a4123456"
AT = datetime.fromtimestamp(1766000000, UTC)
Headers = dict[str, str]


def adapter(token: str | None = TOKEN) -> FeishuAdapter:
    config = FeishuConfig.model_validate(
        {
            "app_id": APP,
            "app_secret": "s",
            "chat_id": "oc_1",
            "encrypt_key": KEY,
            "verification_token": token,
        }
    )
    nobody: Any = None
    return FeishuAdapter(config, client=nobody, tokens=nobody)


def receive(
    headers: Headers, body: bytes, *, at: datetime = AT, token: str | None = TOKEN, method: str = "POST"
) -> Tap | Answer:
    lower = {name.lower(): value for name, value in headers.items()}
    with clock.set_to(at):
        return adapter(token).receive(InboundRequest(method, lower, {}, body))


def signed(body: bytes, *, at: str = "1766000000") -> Headers:
    """The headers of a body that the platform would have signed."""
    return {
        "X-Lark-Request-Timestamp": at,
        "X-Lark-Request-Nonce": "n",
        "X-Lark-Signature": hashlib.sha256(f"{at}n{KEY}".encode() + body).hexdigest(),
    }


def sealed(plain: bytes, *, pad: bool = True) -> bytes:
    if pad:
        size = 16 - len(plain) % 16
        plain += bytes([size]) * size
    key = hashlib.sha256(KEY.encode()).digest()
    encryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
    raw = bytes(16) + encryptor.update(plain) + encryptor.finalize()
    return json.dumps({"encrypt": base64.b64encode(raw).decode()}).encode()


CARD = VECTORS["card_action"]
BODY = CARD["body"].encode()
PLAIN: dict[str, Any] = json.loads(CARD["plaintext"])


def with_change(*path: str, value: Any) -> bytes:
    """The card action with one field changed (``None`` removes it), sealed again."""
    changed = json.loads(CARD["plaintext"])
    node = changed
    for name in path[:-1]:
        node = node[name]
    if value is None:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return sealed(json.dumps(changed).encode())


def refused(headers: Headers, body: bytes, **more: Any) -> int:
    with pytest.raises(CallbackRefused) as caught:
        receive(headers, body, **more)
    return caught.value.status


def test_the_vectors_signature_and_plaintext() -> None:
    headers = CARD["headers"]
    assert (
        feishu_crypto.sign(
            timestamp=headers["X-Lark-Request-Timestamp"],
            nonce=headers["X-Lark-Request-Nonce"],
            encrypt_key=KEY,
            body=BODY,
        )
        == headers["X-Lark-Signature"]
    )
    assert feishu_crypto.decrypt(json.loads(BODY)["encrypt"], encrypt_key=KEY).decode() == CARD["plaintext"]


def test_the_published_example() -> None:
    """The platform's documentation gives this ciphertext for this key."""
    sample = "P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk="
    assert feishu_crypto.decrypt(sample, encrypt_key="test key") == b"hello world"


def test_the_card_action_is_read() -> None:
    assert receive(CARD["headers"], BODY) == Tap(
        event_id="f7984f25108f8137722bb63c0a1b2c3d",
        message_id="om_574d639e4a44e4dd646eaf628e200001",
        chat_id="oc_e4d2605ca917e695f54f11aaf5600001",
        external_id="ou_3c14f3a59eaf2825dbe25359f15a0001",
        action="reject",
        ref="6f1d",
        reason="风险太高 <at id=all></at>",
        tenant_key="2df7399175012345",
    )


def test_header_names_in_any_case() -> None:
    upper = {name.upper(): value for name, value in CARD["headers"].items()}
    assert isinstance(receive(upper, BODY), Tap)


def test_the_challenge_is_answered_unsigned() -> None:
    answer = receive({}, VECTORS["url_verification"]["body"].encode())
    assert isinstance(answer, Answer)
    assert answer.status == 200
    assert json.loads(answer.body) == VECTORS["url_verification"]["expected_response"]


@pytest.mark.parametrize("token", [None, "another", 5, ["x"], "\ud800"])
def test_a_challenge_with_another_token_is_refused(token: Any) -> None:
    plain = {"type": "url_verification", "challenge": "c", "token": token}
    assert refused({}, sealed(json.dumps(plain).encode())) == 401


def test_a_challenge_without_encryption_is_refused() -> None:
    plain = VECTORS["url_verification"]["plaintext"].encode()
    assert refused({}, plain) == 401
    assert refused(signed(plain), plain) == 401


def change(name: str, make: Callable[[str], str | None]) -> Headers:
    headers = dict(CARD["headers"])
    value = make(headers.pop(name))
    return headers if value is None else {**headers, name: value}


SIGNATURE, STAMP, NONCE = "X-Lark-Signature", "X-Lark-Request-Timestamp", "X-Lark-Request-Nonce"


@pytest.mark.parametrize(
    "headers",
    [
        change(SIGNATURE, lambda v: None),
        change(SIGNATURE, lambda v: ""),
        change(SIGNATURE, lambda v: v[:-1]),
        change(SIGNATURE, lambda v: v + "0"),
        change(SIGNATURE, lambda v: "z" * 64),
        change(SIGNATURE, str.upper),
        change(SIGNATURE, lambda v: "é" * 64),
        change(SIGNATURE, lambda v: ("0" if v[0] != "0" else "1") + v[1:]),
        change(STAMP, lambda v: None),
        change(STAMP, lambda v: "yesterday"),
        change(STAMP, lambda v: ""),
        change(STAMP, lambda v: str(int(v) + 1)),
        change(NONCE, lambda v: None),
        change(NONCE, lambda v: v + "x"),
        {},
    ],
    ids=lambda headers: ",".join(sorted(headers)) or "none",
)
def test_a_spoiled_header_is_401(headers: Headers) -> None:
    assert refused(headers, BODY) == 401


@pytest.mark.parametrize(
    "stamp", ["yesterday", "-1766000000", "1766000000.0", "1e9", "٣", "9" * 13, " 1766000000"]
)
def test_a_signed_timestamp_that_is_no_number_is_401(stamp: str) -> None:
    assert refused(signed(BODY, at=stamp), BODY) == 401


@pytest.mark.parametrize("seconds", [-300, 0, 300])
def test_inside_the_window(seconds: int) -> None:
    assert isinstance(receive(CARD["headers"], BODY, at=AT + timedelta(seconds=seconds)), Tap)


@pytest.mark.parametrize("seconds", [-301, 301, 31536000])
def test_outside_the_window_is_401(seconds: int) -> None:
    assert refused(CARD["headers"], BODY, at=AT + timedelta(seconds=seconds)) == 401


@pytest.mark.parametrize("position", range(0, len(BODY), 97))
def test_one_bit_of_the_body_is_401(position: int) -> None:
    body = BODY[:position] + bytes([BODY[position] ^ 1]) + BODY[position + 1 :]
    assert refused(CARD["headers"], body) == 401


def test_the_same_json_written_otherwise_is_401() -> None:
    assert refused(CARD["headers"], json.dumps(json.loads(BODY), indent=1).encode()) == 401


def test_a_signed_plain_body_is_401() -> None:
    vector = VECTORS["card_action_plain_no_encrypt"]
    assert refused(vector["headers"], vector["body"].encode()) == 401


def test_the_wrong_verification_token_is_401() -> None:
    body = with_change("header", "token", value="another")
    assert refused(signed(body), body) == 401
    missing = with_change("header", "token", value=None)
    assert refused(signed(missing), missing) == 401


def test_without_a_verification_token_none_is_compared() -> None:
    body = with_change("header", "token", value="another")
    assert isinstance(receive(signed(body), body, token=None), Tap)


def test_another_apps_event_is_403() -> None:
    body = with_change("header", "app_id", value="cli_other")
    assert refused(signed(body), body) == 403
    missing = with_change("header", "app_id", value=None)
    assert refused(signed(missing), missing) == 403


RAW = base64.b64decode(json.loads(BODY)["encrypt"])


def envelope(value: Any) -> bytes:
    return json.dumps({"encrypt": value}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        envelope("not base64!"),
        envelope(base64.b64encode(RAW[:-7]).decode()),
        envelope(base64.b64encode(RAW[:-16]).decode()),
        envelope(base64.b64encode(RAW[:16]).decode()),
        envelope(""),
        sealed(b"sixteen bytes ok" * 2, pad=False),
        sealed(b"\x00" * 16, pad=False),
        sealed(b"no JSON"),
        sealed(b"[1]"),
        sealed(b"[" * 100_000),
        sealed(b'{"a":' * 100_000),
        sealed(b'{"a":' + b"9" * 5000 + b"}"),
        sealed(b"{}"),
        sealed(b'{"header": [], "event": {}}'),
        sealed(b'{"header": {"event_id": 5}, "event": {}}'),
    ],
    ids=lambda body: f"{body[:16]!r}-{len(body)}",
)
def test_a_signed_body_that_is_not_decodable_is_400(body: bytes) -> None:
    assert refused(signed(body), body) == 400


@pytest.mark.parametrize("body", [b"", b"{", BODY, sealed(b"{}"), sealed(b"no JSON"), envelope("!")])
def test_whatever_is_unsigned_is_401(body: bytes) -> None:
    assert refused({}, body) == 401
    assert refused({}, body, method="GET") == 401


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("event", "operator", "open_id"), None),
        (("event", "operator", "open_id"), ""),
        (("event", "operator", "open_id"), {"$ne": 1}),
        (("event", "operator", "open_id"), "ou_\x00"),
        (("event", "operator", "open_id"), "ou_" + "x" * 300),
        (("event", "context", "open_message_id"), None),
        (("event", "context", "open_message_id"), "om_\ud800"),
        (("header", "event_id"), None),
        (("header", "event_id"), "a b"),
        (("event", "action"), "approve"),
    ],
)
def test_an_event_with_a_hole_is_400(path: tuple[str, ...], value: Any) -> None:
    body = with_change(*path, value=value)
    assert refused(signed(body), body) == 400


def tapped(*path: str, value: Any) -> Tap:
    body = with_change(*path, value=value)
    tap = receive(signed(body), body)
    assert isinstance(tap, Tap)
    return tap


@pytest.mark.parametrize("value", [None, "approve", 5, [], {"d": "\x00", "n": 7}])
def test_without_a_value_the_buttons_name_says_which(value: Any) -> None:
    tap = tapped("event", "action", "value", value=value)
    assert (tap.action, tap.ref) == ("btn_reject", "")


def test_our_own_name_of_a_button_is_its_key() -> None:
    plain = json.loads(CARD["plaintext"])
    del plain["event"]["action"]["value"]
    plain["event"]["action"]["name"] = "hg_reject"
    body = sealed(json.dumps(plain).encode())
    tap = receive(signed(body), body)
    assert isinstance(tap, Tap)
    assert tap.action == "reject"


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"reason": "a\x00b"}, "ab"),
        ({"reason": "half \ud800"}, "half ?"),
        ({"reason": "x" * 5000}, "x" * 1000),
        ({"reason": ["list"]}, None),
        ({}, None),
    ],
)
def test_the_reason_is_what_can_be_stored(form: dict[str, Any], reason: str | None) -> None:
    assert tapped("event", "action", "form_value", value=form).reason == reason


def test_other_events_are_acknowledged() -> None:
    body = with_change("header", "event_type", value="im.message.receive_v1")
    assert receive(signed(body), body) == Answer(200, b"{}")


def test_the_old_event_envelope_is_read() -> None:
    old = {
        "type": "event_callback",
        "uuid": "u-1",
        "token": TOKEN,
        "event": {
            "type": "card.action.trigger",
            "app_id": APP,
            "tenant_key": "t1",
            "open_id": "ou_1",
            "open_message_id": "om_1",
            "open_chat_id": "oc_1",
            "action": {"value": {"d": "approve", "n": "ref"}},
        },
    }
    body = sealed(json.dumps(old).encode())
    assert receive(signed(body), body) == Tap(
        "u-1", "om_1", "oc_1", "ou_1", "approve", "ref", tenant_key="t1"
    )
    old["token"] = "another"
    body = sealed(json.dumps(old).encode())
    assert refused(signed(body), body) == 401


def test_the_retired_flat_card_callback_is_read() -> None:
    flat = {
        "open_id": "ou_1",
        "open_message_id": "om_1",
        "open_chat_id": "oc_1",
        "tenant_key": "t1",
        "token": "c-1",
        "action": {"value": {"d": "approve", "n": "ref"}},
    }
    body = sealed(json.dumps(flat).encode())
    assert receive(signed(body), body) == Tap(
        "c-1", "om_1", "oc_1", "ou_1", "approve", "ref", tenant_key="t1"
    )
    assert refused({}, body) == 401
