"""Callback requests as the platform builds them, and every way in which a test may spoil one."""

import base64
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from channels_app.sandbox import crypto
from channels_app.sandbox.directory import App, User
from channels_app.sandbox.refusals import BadOrder

Json = dict[str, Any]


@dataclass
class Request:
    """The bytes and headers of one callback, ready to be posted."""

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    event_id: str = ""


@dataclass(frozen=True)
class Press:
    """What the person did: the message, the button, and what the form held."""

    message_id: str
    chat_id: str
    button_name: str
    value: Any
    form_value: dict[str, str] | None


def event(app: App, user: User, press: Press, *, now: float) -> Json:
    """A `card.action.trigger` event, schema 2.0."""
    action: Json = {"tag": "button", "timezone": "Asia/Shanghai"}
    action |= {"value": press.value} if press.value is not None else {}
    action |= {"form_value": press.form_value} if press.form_value is not None else {}
    action |= {"name": press.button_name} if press.button_name else {}
    operator = {"tenant_key": app.tenant_key, "open_id": user.open_id, "union_id": user.union_id}
    if "contact:user.employee_id:readonly" in app.scopes:
        operator["user_id"] = user.user_id
    return {
        "schema": "2.0",
        "header": {
            "event_id": secrets.token_hex(16),
            "token": app.verification_token,
            "create_time": str(int(now * 1_000_000)),
            "event_type": "card.action.trigger",
            "tenant_key": app.tenant_key,
            "app_id": app.app_id,
        },
        "event": {
            "operator": operator,
            "token": f"c-{secrets.token_hex(16)}",
            "action": action,
            "host": "im_message",
            "context": {"open_message_id": press.message_id, "open_chat_id": press.chat_id},
        },
    }


def flat_event(app: App, user: User, press: Press) -> Json:
    """The retired card callback: no header, no event id, everything at top level."""
    action: Json = {"tag": "button", "timezone": "Asia/Shanghai"}
    action |= {"value": press.value} if press.value is not None else {}
    action |= {"form_value": press.form_value} if press.form_value is not None else {}
    action |= {"name": press.button_name} if press.button_name else {}
    return {
        "open_id": user.open_id,
        "user_id": user.user_id,
        "open_message_id": press.message_id,
        "open_chat_id": press.chat_id,
        "tenant_key": app.tenant_key,
        "token": f"c-{secrets.token_hex(16)}",
        "action": action,
    }


def url_check(app: App, *, token: str | None = None) -> tuple[Request, str]:
    """The request that the console sends when the URL is saved, unsigned, and the challenge that must come back."""
    challenge = secrets.token_hex(16)
    text = _text(
        {"challenge": challenge, "token": token or app.verification_token, "type": "url_verification"}
    )
    body = (
        crypto.envelope(crypto.encrypt(text, encrypt_key=app.encrypt_key))
        if app.encrypt_key
        else text.encode()
    )
    return Request(body, {"Content-Type": "application/json; charset=utf-8"}), challenge


def build(app: App, payload: Json, *, now: float, tamper: str = "", v1_signature: bool = False) -> Request:
    """Encrypts and signs a payload as the platform does, spoiled in one way when `tamper` names one of TAMPERS.

    Raises BadOrder for an unknown name.
    """
    if tamper and tamper not in TAMPERS:
        raise BadOrder(f"tamper: {tamper!r} is unknown; known: {', '.join(TAMPERS)}")
    if tamper in PAYLOADS:
        PAYLOADS[tamper](payload)
    body = BODIES.get(tamper, _sealed)(app, payload)
    timestamp, nonce = str(int(now)), secrets.token_hex(8)
    if v1_signature:
        signature = crypto.sign_v1(
            timestamp=timestamp, nonce=nonce, verification_token=app.verification_token, body=body
        )
    else:
        signature = crypto.sign(timestamp=timestamp, nonce=nonce, encrypt_key=app.encrypt_key, body=body)
    headers = {"Content-Type": "application/json; charset=utf-8"}
    if app.encrypt_key or v1_signature:  # without a key the platform signs nothing
        headers |= {
            "X-Lark-Request-Timestamp": timestamp,
            "X-Lark-Request-Nonce": nonce,
            "X-Lark-Signature": signature,
        }
    request = Request(body, headers, payload.get("header", {}).get("event_id", ""))
    if tamper in REQUESTS:
        REQUESTS[tamper](request)
    return request


def _text(payload: Json) -> str:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def _sealed(app: App, payload: Json) -> bytes:
    if not app.encrypt_key:
        return _text(payload).encode()
    return crypto.envelope(crypto.encrypt(_text(payload), encrypt_key=app.encrypt_key))


def _raw(app: App, payload: Json) -> bytes:
    return base64.b64decode(crypto.encrypt(_text(payload), encrypt_key=app.encrypt_key))


def _bad_padding(app: App, payload: Json) -> bytes:
    del payload
    return crypto.envelope(crypto.encrypt_blocks(b'{"a":1}' + bytes(9), encrypt_key=app.encrypt_key))


def _set(*path: str, value: str) -> Callable[[Json], None]:
    def spoil(payload: Json) -> None:
        for key in path[:-1]:
            payload = payload.get(key, {})
        payload[path[-1]] = value

    return spoil


def _header(name: str, value: Callable[[str], str | None]) -> Callable[[Request], None]:
    def spoil(request: Request) -> None:
        changed = value(request.headers.pop(name, ""))
        if changed is not None:
            request.headers[name] = changed

    return spoil


def _flip_bit(request: Request) -> None:
    middle = len(request.body) // 2
    request.body = request.body[:middle] + bytes([request.body[middle] ^ 1]) + request.body[middle + 1 :]


def _reserialize(request: Request) -> None:
    request.body = json.dumps(json.loads(request.body), indent=1).encode()


def _lower_headers(request: Request) -> None:
    request.headers = {name.lower(): value for name, value in request.headers.items()}


def _unsigned(request: Request) -> None:
    request.headers = {"Content-Type": request.headers["Content-Type"]}


# Spoiled before encryption and signed properly: the platform's keys, another content.
PAYLOADS: dict[str, Callable[[Json], None]] = {
    "token": _set("header", "token", value="vt_of_somebody_else"),
    "app_id": _set("header", "app_id", value="cli_of_somebody_else"),
    "tenant": _set("header", "tenant_key", value="tenant_of_somebody_else"),
    "event_type": _set("header", "event_type", value="im.message.receive_v1"),
    "message_id": _set("event", "context", "open_message_id", value="om_0000000000000000000000000000ffff"),
    "chat_id": _set("event", "context", "open_chat_id", value="oc_0000000000000000000000000000ffff"),
}

# Another body, signed properly.
BODIES: dict[str, Callable[[App, Json], bytes]] = {
    "plain": lambda app, payload: _text(payload).encode(),
    "plain_unsigned": lambda app, payload: _text(payload).encode(),
    "garbage": lambda app, payload: crypto.envelope("not base64 at all!"),
    "truncated": lambda app, payload: crypto.envelope(base64.b64encode(_raw(app, payload)[:-7]).decode()),
    "bad_padding": _bad_padding,
    "not_json": lambda app, payload: crypto.envelope(crypto.encrypt("no JSON", encrypt_key=app.encrypt_key)),
    "wrong_key": lambda app, payload: crypto.envelope(
        crypto.encrypt(_text(payload), encrypt_key="another key")
    ),
    "empty": lambda app, payload: b"",
    "oversize": lambda app, payload: crypto.envelope("A" * (1024 * 1024 + 1)),
}

# Spoiled after signing.
REQUESTS: dict[str, Callable[[Request], None]] = {
    "signature": _header(
        "X-Lark-Signature", lambda value: ("1" if value.startswith("0") else "0") + value[1:]
    ),
    "signature_missing": _header("X-Lark-Signature", lambda value: None),
    "signature_empty": _header("X-Lark-Signature", lambda value: ""),
    "signature_short": _header("X-Lark-Signature", lambda value: value[:-2]),
    "signature_not_hex": _header("X-Lark-Signature", lambda value: "z" * len(value)),
    "signature_upper": _header("X-Lark-Signature", str.upper),
    "timestamp_missing": _header("X-Lark-Request-Timestamp", lambda value: None),
    "timestamp_text": _header("X-Lark-Request-Timestamp", lambda value: "yesterday"),
    "nonce": _header("X-Lark-Request-Nonce", lambda value: "another" + value),
    "nonce_missing": _header("X-Lark-Request-Nonce", lambda value: None),
    "body": _flip_bit,
    "reserialized": _reserialize,
    "lower_headers": _lower_headers,
    "unsigned": _unsigned,
    "plain_unsigned": _unsigned,
}

TAMPERS = tuple(dict.fromkeys([*PAYLOADS, *BODIES, *REQUESTS]))
