"""Reading Feishu's callbacks: authentic first, then decoded, then ours, and only then read.

Requires the encrypted envelope. The platform defines no freshness for callbacks; the window of 300 s is the portal's.
"""

import json
import re
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from channels_app.adapters import feishu_crypto
from channels_app.adapters.base import Answer, CallbackRefused, InboundRequest, Tap
from channels_app.adapters.feishu_card import NAME_PREFIX
from portal.lib import clock
from portal.lib.crypto import same

WINDOW_SECONDS = 300
CARD_EVENTS = {"card.action.trigger", "card.action.trigger_v1"}
MAX_REASON = 1000

M = TypeVar("M", bound=BaseModel)
Id = Annotated[str, StringConstraints(pattern=r"^[!-~]{0,200}$")]


class _Header(BaseModel):
    event_id: Id = ""
    token: str = Field(default="", max_length=200)
    event_type: Id = ""
    tenant_key: Id = ""
    app_id: Id = ""
    # The retired card callback has no verification token: its ``token`` is the one for updating the card.
    flat: bool = False


class _Operator(BaseModel):
    open_id: Id = ""


class _Context(BaseModel):
    open_message_id: Id = ""
    open_chat_id: Id = ""


class _Action(BaseModel):
    value: Any = None
    name: str = Field(default="", max_length=200)
    form_value: dict[str, Any] | None = None


class _Event(BaseModel):
    """A card's event. Older shapes have the ids at this level instead of in ``operator`` and ``context``."""

    operator: _Operator = _Operator()
    context: _Context = _Context()
    action: _Action = _Action()
    open_id: Id = ""
    open_message_id: Id = ""
    open_chat_id: Id = ""


def read(
    request: InboundRequest, *, app_id: str, encrypt_key: str, verification_token: str | None
) -> Tap | Answer:
    """Verify and read one callback. Raises :class:`CallbackRefused`."""
    if request.method != "POST":
        raise CallbackRefused(401, "not_posted", "the platform posts its callbacks")
    signed = "x-lark-signature" in request.headers
    if signed:
        _verify(request, encrypt_key)
    payload = _open(request.body, encrypt_key, signed=signed)
    if payload.get("type") == "url_verification":
        return _challenge(payload, verification_token)
    if not signed:
        raise CallbackRefused(401, "signature_missing", "the request carries no signature")
    header, event = _envelope(payload)
    if verification_token and not header.flat and not _same(header.token, verification_token):
        raise CallbackRefused(401, "token_wrong", "the verification token is another one")
    # The retired card callback may leave its app out; one that names another is another's.
    if header.app_id != app_id and (header.app_id or not header.flat):
        raise CallbackRefused(403, "wrong_app", "the callback is for another app")
    if header.event_type not in CARD_EVENTS:
        return Answer(200, b"{}")
    return _tap(header, _parse(_Event, event))


def _verify(request: InboundRequest, encrypt_key: str) -> None:
    timestamp = request.headers.get("x-lark-request-timestamp", "")
    nonce = request.headers.get("x-lark-request-nonce", "")
    expected = feishu_crypto.sign(
        timestamp=timestamp, nonce=nonce, encrypt_key=encrypt_key, body=request.body
    )
    if not nonce or not _same(request.headers["x-lark-signature"], expected):
        raise CallbackRefused(401, "signature_wrong", "the signature does not fit the body")
    if not re.fullmatch(r"[0-9]{1,12}", timestamp):
        raise CallbackRefused(401, "timestamp_wrong", "the timestamp is not a number of seconds")
    if abs(clock.now().timestamp() - int(timestamp)) > WINDOW_SECONDS:
        raise CallbackRefused(
            401, "timestamp_stale", "the timestamp is more than 300 s away; check the clock"
        )


def _open(body: bytes, encrypt_key: str, *, signed: bool) -> dict[str, Any]:
    """The object inside the envelope. What is neither signed nor readable is refused as unsigned, whatever it is."""
    try:
        envelope = _loads(body)
        sealed = envelope.get("encrypt")
        if not isinstance(sealed, str):
            raise CallbackRefused(401, "not_encrypted", "the body must be encrypted; set the Encrypt Key")
        return _loads(feishu_crypto.decrypt(sealed, encrypt_key=encrypt_key))
    except ValueError as error:
        if not signed:
            raise CallbackRefused(401, "signature_missing", "the request carries no signature") from error
        raise CallbackRefused(400, "not_decodable", "the body can't be decoded") from error


def _loads(text: bytes) -> dict[str, Any]:
    """A JSON object. Raises ``ValueError``, also for what is nested too deep and for what has two readings."""
    try:
        value = json.loads(text, object_pairs_hook=_members, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name appears twice")
    return members


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _challenge(payload: dict[str, Any], verification_token: str | None) -> Answer:
    """The answer to the check of the URL, which carries no signature: encryption and token speak for it."""
    token, challenge = payload.get("token"), payload.get("challenge")
    if verification_token and not (isinstance(token, str) and _same(token, verification_token)):
        raise CallbackRefused(401, "token_wrong", "the verification token is another one")
    if not isinstance(challenge, str) or len(challenge) > 1000:
        raise CallbackRefused(400, "not_decodable", "the challenge is not a text")
    return Answer(200, json.dumps({"challenge": challenge}).encode())


def _envelope(payload: dict[str, Any]) -> tuple[_Header, dict[str, Any]]:
    """Header and event of each shape: schema 2.0, ``event_callback``, and the retired flat card callback."""
    event = payload.get("event")
    if isinstance(payload.get("header"), dict) and isinstance(event, dict):
        return _parse(_Header, {**payload["header"], "flat": False}), event
    if payload.get("type") == "event_callback" and isinstance(event, dict):
        old = {name: event.get(name, "") for name in ("app_id", "tenant_key")}
        header = {
            **old,
            "event_id": payload.get("uuid", ""),
            "token": payload.get("token", ""),
            "event_type": event.get("type", ""),
        }
        return _parse(_Header, header), event
    if isinstance(payload.get("action"), dict) and "open_message_id" in payload:
        header = {
            "event_id": payload.get("token", ""),
            "event_type": "card.action.trigger_v1",
            "tenant_key": payload.get("tenant_key", ""),
            "app_id": payload.get("app_id", ""),
            "flat": True,
        }
        return _parse(_Header, header), payload
    raise CallbackRefused(400, "not_decodable", "neither a known event nor a card action")


def _parse(model: type[M], value: dict[str, Any]) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise CallbackRefused(400, "not_decodable", "a field is missing or of the wrong kind") from error


def _tap(header: _Header, event: _Event) -> Tap:
    value = event.action.value if isinstance(event.action.value, dict) else {}
    reason = (event.action.form_value or {}).get("reason")
    tap = Tap(
        event_id=header.event_id,
        message_id=event.context.open_message_id or event.open_message_id,
        chat_id=event.context.open_chat_id or event.open_chat_id,
        external_id=event.operator.open_id or event.open_id,
        action=_word(value.get("d")) or _word(event.action.name.removeprefix(NAME_PREFIX)),
        ref=_word(value.get("n")),
        reason=_reason(reason) if isinstance(reason, str) else None,
        tenant_key=header.tenant_key,
    )
    if not (tap.event_id and tap.message_id and tap.external_id):
        raise CallbackRefused(400, "not_decodable", "the event names no event, message or person")
    return tap


def _word(value: Any) -> str:
    return value if isinstance(value, str) and re.fullmatch(r"[!-~]{1,64}", value) else ""


def _reason(text: str) -> str:
    """The reason as it can be stored: no NUL, no half characters."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")[:MAX_REASON].strip()


def _same(left: str, right: str) -> bool:
    return same(left.encode("utf-8", "surrogatepass"), right.encode("utf-8", "surrogatepass"))
