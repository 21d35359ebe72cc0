"""A request whose card is in the chat, the genuine tap on it as bytes, and all rows that a forged one leaves alone."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from django.apps import apps
from django.db import transaction
from django.test import Client

from channels_app.models import App, Channel, Delivery, Interaction
from channels_app.sandbox import callbacks, crypto, directory
from hooks_app.models import ConfirmationRequest
from portal.lib import clock
from tests import make
from tests.confirmations import world as worlds
from tests.confirmations.world import World

Json = dict[str, Any]
KEY, TOKEN, APP_ID = make.FEISHU["encrypt_key"], make.FEISHU["verification_token"], make.FEISHU["app_id"]
CHAT, TENANT = make.FEISHU["chat_id"], "tenant1"
SIGNATURE, STAMP, NONCE = "X-Lark-Signature", "X-Lark-Request-Timestamp", "X-Lark-Request-Nonce"
# What a tap that changes nothing may still leave behind: its own line, and when the app last called.
LOG = {"channels_app.Interaction"}
LOGGED: dict[str, tuple[str, ...]] = {"channels_app.App": ("last_callback_at",)}


@dataclass(frozen=True)
class Sent:
    """One HTTP request to the callback."""

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    path: str = "/channels/acme/ops-feishu/callback"
    method: str = "POST"

    def but(self, **headers: str | None) -> "Sent":
        """The same with some headers (``_`` for ``-``) set, or left out."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        kept = {name: value for name, value in self.headers.items() if name not in named}
        return replace(self, headers={**kept, **{n: v for n, v in named.items() if v is not None}})


@dataclass(frozen=True)
class Answer:
    """``word``: the problem's code, or what the portal wrote down of the tap (``""`` if nothing)."""

    status: int
    word: str
    body: bytes


@dataclass
class Scene:
    """``row`` waits for bob (``ou_bob``); its card is the message ``om_1``. ``second`` is another one's, ``om_2``."""

    world: World
    row: ConfirmationRequest
    card: Delivery
    second: Delivery
    app: directory.App
    client: Client = field(default_factory=Client)

    def payload(self, *, who: str = "ou_bob", **event: Any) -> Json:
        """What the platform says when somebody taps Approve; ``event`` replaces whole members of the event."""
        button = {"v": 1, "d": "approve", "n": self.card.ref}
        press = callbacks.Press(self.card.message_id, self.card.chat_id, "hg_approve", button, None)
        user = directory.User(who, who, f"{who}@acme.test", f"on_{who}", f"u_{who}")
        made = callbacks.event(self.app, user, press, now=clock.now().timestamp())
        made["event"].update(event)
        return made

    def tap(self, **changes: Any) -> Sent:
        """:meth:`payload`, sealed and signed."""
        return sign(seal(self.payload(**changes)))

    def context(self, message_id: str = "om_1", chat_id: str = CHAT) -> Json:
        """Where the tap says that it was."""
        return {"open_message_id": message_id, "open_chat_id": chat_id}

    def post(self, sent: Sent) -> Answer:
        """Send it as a platform would."""
        known = set(Interaction.objects.values_list("pk", flat=True))
        response = self.client.generic(
            sent.method, sent.path, sent.body, "application/json", headers=sent.headers
        )
        content = response.content
        if response.headers.get("Content-Type") == "application/problem+json":
            return Answer(response.status_code, json.loads(content)["code"], content)
        new = Interaction.objects.exclude(pk__in=known).first()
        return Answer(response.status_code, new.result if new else "", content)


def seal(payload: Any) -> bytes:
    """The encrypted envelope of an object, or of a text as it stands."""
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return crypto.envelope(crypto.encrypt(text, encrypt_key=KEY))


def sign(body: bytes, *, seconds: float = 0, key: str = KEY) -> Sent:
    """The request that carries ``body``, signed ``seconds`` from now."""
    stamp = str(int(clock.now().timestamp() + seconds))
    signature = crypto.sign(timestamp=stamp, nonce="n0nce", encrypt_key=key, body=body)
    return Sent(body, {STAMP: stamp, NONCE: "n0nce", SIGNATURE: signature})


def build() -> Scene:
    """The scene; everything is as after a delivery and a first tap elsewhere."""
    world = worlds.build()
    world.bind(world.bob, "ou_bob")
    App.objects.update(tenant_key=TENANT)
    row, other = world.ask(), world.ask()
    cards = []
    for number, request in enumerate((row, other), start=1):
        card = Delivery.objects.get(topic=f"confirmation:{request.pk}")
        card.status, card.message_id, card.chat_id = Delivery.Status.SENT, f"om_{number}", CHAT
        card.handle = {"message_id": card.message_id, "chat_id": CHAT}
        card.sent_at, card.shown_version, card.due_at = clock.now(), card.wanted_version, None
        card.save()
        cards.append(card)
    app = directory.App(
        APP_ID, make.FEISHU["app_secret"], KEY, TOKEN, TENANT, None, list(directory.ALL_SCOPES), "bot", "ou_b"
    )
    return Scene(world, row, cards[0], cards[1], app)


def rows(*, without_log: bool = False) -> dict[str, list[Json]]:
    """Every row of every table, as it is now; ``without_log``: but for what a tap may leave behind in any case."""
    found = {}
    for model in apps.get_models(include_auto_created=True):
        name = model._meta.label
        left_out = LOGGED.get(name, ()) if without_log else ()
        kept = [
            {k: v for k, v in row.items() if k not in left_out}
            for row in model._default_manager.order_by("pk").values()
        ]
        if not (without_log and name in LOG):
            found[name] = kept
    return found


@contextmanager
def undone() -> Iterator[None]:
    """Whatever the block does to the database is undone."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def status(scene: Scene) -> str:
    """The request's status in the database."""
    return ConfirmationRequest.objects.get(pk=scene.row.pk).status


def other_app(scene: Scene, slug: str = "second-app") -> Channel:
    """A channel of the same organization in the same chat with an app of its own."""
    config = {"app_id": "cli_2", "encrypt_key": "key-2", "verification_token": "token-2"}
    return make.channel(scene.world.organization, slug, config=config)


Spoil = Callable[[Scene], Sent]
