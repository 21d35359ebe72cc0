"""Every forgery of a tap with its exact answer: one thing spoiled about the genuine one, or about its world."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from channels_app import channels, identities
from channels_app.models import Channel, Identity
from channels_app.sandbox import crypto
from channels_app.views import MAX_BODY
from portal.models import Membership, User
from tests import make
from tests.channels import forging
from tests.channels.forging import KEY, NONCE, SIGNATURE, STAMP, TOKEN, Scene, Sent, Spoil, seal, sign

Row = tuple[int, str, Spoil]


def header(**changes: Callable[[str], str | None]) -> Spoil:
    """The genuine tap with headers changed after signing."""
    names = {"signature": SIGNATURE, "stamp": STAMP, "nonce": NONCE}

    def spoil(scene: Scene) -> Sent:
        sent = scene.tap()
        return sent.but(
            **{names[which]: change(sent.headers[names[which]]) for which, change in changes.items()}
        )

    return spoil


def inside(*path: str, value: Any) -> Spoil:
    """The genuine tap with one member of its payload changed before sealing; ``None`` leaves it out."""

    def spoil(scene: Scene) -> Sent:
        payload = scene.payload()
        *way, last = path
        place = payload
        for name in way:
            place = place[name]
        place[last] = value
        if value is None:
            del place[last]
        return sign(seal(payload))

    return spoil


def signed(body: Any) -> Spoil:
    """A body of one's own choice, properly signed; a function makes it of the scene."""
    return lambda scene: sign(body(scene) if callable(body) else body)


def unsigned(body: Any) -> Spoil:
    return lambda scene: Sent(body(scene) if callable(body) else body)


def sealed(text: str) -> Spoil:
    return signed(seal(text))


def with_key(key: str) -> Spoil:
    return lambda scene: sign(scene.tap().body, key=key)


def skewed(seconds: int) -> Spoil:
    return lambda scene: sign(scene.tap().body, seconds=seconds)


def by(method: str) -> Spoil:
    return lambda scene: replace(scene.tap(), method=method)


def at(path: str) -> Spoil:
    return lambda scene: replace(scene.tap(), path=f"/channels/{path}/callback")


def plain(scene: Scene) -> bytes:
    return json.dumps(scene.payload()).encode()


def raw(scene: Scene) -> bytes:
    """IV and ciphertext of the genuine tap."""
    return base64.b64decode(json.loads(scene.tap().body)["encrypt"])


def cut(size: int) -> Callable[[Scene], bytes]:
    return lambda scene: crypto.envelope(base64.b64encode(raw(scene)[:-size]).decode())


def blocks(data: bytes) -> bytes:
    """Whole blocks with whatever padding ``data`` ends in."""
    return crypto.envelope(crypto.encrypt_blocks(data, encrypt_key=KEY))


def check(token: str) -> str:
    """The platform's check of the address."""
    return json.dumps({"challenge": "c", "token": token, "type": "url_verification"})


def v1_signature(scene: Scene) -> Sent:
    sent = scene.tap()
    stamp, nonce = sent.headers[STAMP], sent.headers[NONCE]
    old = crypto.sign_v1(timestamp=stamp, nonce=nonce, verification_token=TOKEN, body=sent.body)
    return sent.but(**{SIGNATURE: old})


def flat(scene: Scene, app_id: str) -> bytes:
    """The retired card callback, which has no header."""
    event = scene.payload()["event"]
    body = {**event["context"], "open_id": "ou_bob", "tenant_key": forging.TENANT, "action": event["action"]}
    return seal({**body, "token": "c-1", "app_id": app_id})


def twice(scene: Scene) -> str:
    """The payload's text with another app's id before ours, under one name."""
    text = json.dumps(scene.payload())
    return text.replace('"app_id": ', '"app_id": "cli_other", "app_id": ', 1)


NOT_AUTHENTIC: dict[str, Row] = {
    "unsigned": (401, "signature_missing", lambda s: Sent(s.tap().body)),
    "no signature, the rest is there": (401, "signature_missing", header(signature=lambda v: None)),
    "empty signature": (401, "signature_wrong", header(signature=lambda v: "")),
    "one digit of it": (401, "signature_wrong", header(signature=lambda v: ("1" if v[0] == "0" else "0") + v[1:])),
    "short signature": (401, "signature_wrong", header(signature=lambda v: v[:-2])),
    "upper-case hex": (401, "signature_wrong", header(signature=str.upper)),
    "signature twice in one header": (401, "signature_wrong", header(signature=lambda v: f"{v},{v}")),
    "not hex": (401, "signature_wrong", header(signature=lambda v: "z" * 64)),
    "signed with the app secret": (401, "signature_wrong", with_key(make.FEISHU["app_secret"])),
    "signed with the verification token": (401, "signature_wrong", with_key(TOKEN)),
    "signed with nothing": (401, "signature_wrong", with_key("")),
    "the retired signature": (401, "signature_wrong", v1_signature),
    "a fresh time on an old signature": (401, "signature_wrong", header(stamp=lambda v: str(int(v) + 1))),
    "another nonce": (401, "signature_wrong", header(nonce=lambda v: v + "x")),
    "no nonce": (401, "signature_wrong", header(nonce=lambda v: None)),
    "no time": (401, "signature_wrong", header(stamp=lambda v: None)),
    "another body": (401, "signature_wrong", lambda s: replace(s.tap(), body=seal(s.payload()))),
    "the same JSON in other bytes": (401, "signature_wrong", lambda s: replace((t := s.tap()), body=t.body + b"\n")),
    "stale": (401, "timestamp_stale", skewed(-301)),
    "from the future": (401, "timestamp_stale", skewed(301)),
    "a year old": (401, "timestamp_stale", skewed(-31536000)),
    "wrong verification token": (401, "token_wrong", inside("header", "token", value="another")),
    "no verification token": (401, "token_wrong", inside("header", "token", value=None)),
    "plain and signed": (401, "not_encrypted", signed(plain)),
    "plain and unsigned": (401, "not_encrypted", unsigned(plain)),
    "unsigned garbage": (401, "signature_missing", unsigned(b"\x00\xff garbage")),
    "garbage under a wrong signature": (401, "signature_wrong", lambda s: sign(b"\x00\xff {", key="other")),
    "a bomb under a wrong signature": (401, "signature_wrong", lambda s: sign(b"[" * 100_000, key="other")),
    "signed, but by GET": (401, "not_posted", by("GET")),
    "HEAD": (405, "", by("HEAD")),
    "PUT": (405, "", by("PUT")),
    "PATCH": (405, "", by("PATCH")),
    "DELETE": (405, "", by("DELETE")),
    "OPTIONS": (405, "", by("OPTIONS")),
    "address check, wrong token": (401, "token_wrong", unsigned(seal(check("another")))),
    "address check, wrong token, signed": (401, "token_wrong", sealed(check("another"))),
    "address check, plain": (401, "not_encrypted", unsigned(check(TOKEN).encode())),
}  # fmt: skip

NOT_OURS: dict[str, Row] = {
    "another app": (403, "wrong_app", inside("header", "app_id", value="cli_other")),
    "no app": (403, "wrong_app", inside("header", "app_id", value=None)),
    "another app, retired shape": (403, "wrong_app", signed(lambda s: flat(s, "cli_other"))),
    "another tenant": (403, "wrong_tenant", inside("header", "tenant_key", value="tenant2")),
    "unknown channel": (404, "not_found", at("acme/no-such")),
    "unknown organization": (404, "not_found", at("globex/ops-feishu")),
}

NOT_DECODABLE: dict[str, Row] = {
    "empty": (400, "not_decodable", signed(b"")),
    "not JSON": (400, "not_decodable", signed(b"encrypt=1")),
    "no object": (400, "not_decodable", signed(b"[]")),
    "not UTF-8": (400, "not_decodable", signed(b'{"encrypt": "\xff"}')),
    "nesting bomb": (400, "not_decodable", signed(b'{"encrypt":' + b"[" * 200_000)),
    "two envelopes": (400, "not_decodable", signed(lambda s: s.tap().body[:-1] + b', "encrypt": "AAAA"}')),
    "not base64": (400, "not_decodable", signed(crypto.envelope("not base64!"))),
    "a byte short": (400, "not_decodable", signed(cut(1))),
    "a block short": (400, "not_decodable", signed(cut(16))),
    "vector alone": (400, "not_decodable", signed(lambda s: crypto.envelope(base64.b64encode(raw(s)[:16]).decode()))),
    "padding of nought": (400, "not_decodable", signed(blocks(b'{"a":1}' + bytes(9)))),
    "padding too long": (400, "not_decodable", signed(blocks(b'{"a":1}' + bytes([17]) * 9))),
    "padding uneven": (400, "not_decodable", signed(blocks(b'{"a":1}xxxxxxx\x01\x02'))),
    "another key": (400, "not_decodable", signed(
        lambda s: crypto.envelope(crypto.encrypt(json.dumps(s.payload()), encrypt_key="another")))),
    "no JSON inside": (400, "not_decodable", sealed("no JSON")),
    "no object inside": (400, "not_decodable", sealed("[1]")),
    "nesting bomb inside": (400, "not_decodable", sealed('{"a":' * 100_000)),
    "a name twice inside": (400, "not_decodable", lambda s: sign(seal(twice(s)))),
    "NaN inside": (400, "not_decodable", sealed('{"schema": NaN}')),
    "huge number inside": (400, "not_decodable", sealed('{"schema": ' + "9" * 5000 + "}")),
    "number for a person": (400, "not_decodable", inside("event", "operator", value={"open_id": 10**400})),
    "nobody": (400, "not_decodable", inside("event", "operator", value=None)),
    "no event id": (400, "not_decodable", inside("header", "event_id", value=None)),
    "no message": (400, "not_decodable", inside("event", "context", value={"open_chat_id": "oc_1"})),
    "over 1 MiB": (413, "too_large", signed(b"x" * (MAX_BODY + 1))),
    "over 1 MiB, unsigned": (413, "too_large", unsigned(b"x" * (MAX_BODY + 1))),
}  # fmt: skip


def button(ref: Any, key: str = "approve") -> dict[str, Any]:
    return {"tag": "button", "name": f"hg_{key}", "value": {"v": 1, "d": key, "n": ref}}


def bound_elsewhere(scene: Scene) -> Sent:
    """Mallory of another organization has the same account there, in a channel of the same app."""
    globex = make.organization("globex")
    mallory = make.user("mallory", globex, "admin")
    channel = make.channel(globex)
    identities.bind(organization=globex, user=mallory, channel=channel, external_id="ou_mallory")
    return scene.tap(who="ou_mallory")


def bound_to_another_app(scene: Scene) -> Sent:
    channel = forging.other_app(scene)
    identities.bind(
        organization=scene.world.organization, user=scene.world.carol, channel=channel, external_id="ou_carol"
    )
    return scene.tap(who="ou_carol")


def runtime_account(scene: Scene) -> Sent:
    """The id by which a runtime knows Carol is no account of the chat."""
    identities.bind(
        organization=scene.world.organization, user=scene.world.carol, channel=None, external_id="ou_carol"
    )
    return scene.tap(who="ou_carol")


def foreign_address(scene: Scene) -> Sent:
    """The same app, added by another organization."""
    make.channel(make.organization("globex"))
    return replace(scene.tap(), path="/channels/globex/ops-feishu/callback")


def foreign_card(scene: Scene) -> Sent:
    """Our card, tapped as far as another app says in all authenticity."""
    forging.other_app(scene)
    payload = scene.payload()
    payload["header"].update(app_id="cli_2", token="token-2")
    body = crypto.envelope(crypto.encrypt(json.dumps(payload), encrypt_key="key-2"))
    return replace(sign(body, key="key-2"), path="/channels/acme/second-app/callback")


def after(change: Callable[[Scene], object], **tap: Any) -> Spoil:
    """The genuine tap in a world that has changed."""

    def spoil(scene: Scene) -> Sent:
        change(scene)
        return scene.tap(**tap)

    return spoil


def sibling(scene: Scene) -> Sent:
    """The card's channel is off, and the tap comes to another address of its app."""
    make.channel(scene.world.organization, "spare")
    Channel.objects.filter(slug="ops-feishu").update(enabled=False)
    return replace(scene.tap(), path="/channels/acme/spare/callback")


def bobs(scene: Scene) -> Any:
    return User.objects.filter(pk=scene.world.bob.pk)


UNHEARD: dict[str, Row] = {
    "another chat": (200, "unknown_card", lambda s: s.tap(context=s.context(chat_id="oc_2"))),
    "no chat": (200, "unknown_card", lambda s: s.tap(context={"open_message_id": "om_1"})),
    "a made-up message": (200, "unknown_card", lambda s: s.tap(context=s.context("om_made_up"))),
    "another request's message": (200, "unknown_card", lambda s: s.tap(context=s.context("om_2"))),
    "a made-up reference": (200, "unknown_card", lambda s: s.tap(action=button("r" * 24))),
    "another request's reference": (200, "unknown_card", lambda s: s.tap(action=button(s.second.ref))),
    "no reference, a made-up message": (
        200, "unknown_card", lambda s: s.tap(action=button(None), context=s.context("om_made_up"))),
    "the request's id for a reference": (200, "unknown_card", lambda s: s.tap(action=button(str(s.row.pk)))),
    "a button that isn't there": (200, "unknown_button", lambda s: s.tap(action=button(s.card.ref, "approve_all"))),
    "no button": (200, "unknown_button", lambda s: s.tap(action={"value": {"n": s.card.ref}})),
    "another organization's address": (200, "unknown_card", foreign_address),
    "another app's word": (200, "unknown_card", foreign_card),
    "somebody unknown": (200, "refused", lambda s: s.tap(who="ou_nobody")),
    "bob in other letters": (200, "refused", lambda s: s.tap(who="OU_BOB")),
    "bound in another organization": (200, "refused", bound_elsewhere),
    "bound to another app": (200, "refused", bound_to_another_app),
    "bound for runtimes alone": (200, "refused", runtime_account),
    "unbound": (200, "refused", after(lambda s: Identity.objects.all().delete())),
    "deactivated": (200, "refused", after(lambda s: bobs(s).update(is_active=False))),
    "member no more": (200, "refused", after(lambda s: Membership.objects.filter(user=s.world.bob).delete())),
    "demoted": (200, "refused", after(lambda s: Membership.objects.filter(user=s.world.bob).update(role="member"))),
    "made an auditor": (
        200, "refused", after(lambda s: Membership.objects.filter(user=s.world.bob).update(role="auditor"))),
    "a superuser, but of no organization": (200, "refused", after(
        lambda s: (bobs(s).update(is_superuser=True), Membership.objects.filter(user=s.world.bob).delete()))),
    "channel off": (404, "not_found", after(lambda s: Channel.objects.update(enabled=False))),
    "channel deleted": (404, "not_found", after(lambda s: channels.remove(s.world.channel))),
    "channel off, at a sibling's address": (200, "channel_off", sibling),
}  # fmt: skip

GROUPS = {
    "not authentic": NOT_AUTHENTIC,
    "not ours": NOT_OURS,
    "not decodable": NOT_DECODABLE,
    "authentic, but of no effect": UNHEARD,
}
