"""An office that is spoken to from outside alone: REST for runtimes and people, signed callbacks for taps."""

import itertools
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from django.test import Client

from channels_app.models import Channel, Delivery
from channels_app.sandbox import callbacks
from channels_app.sandbox.directory import App, User
from hooks_app.models import ConfirmationRequest
from portal import audit
from portal.lib import clock
from portal.models import User as Person
from portal.people import tokens
from tests import make
from tests.confirmations import world as worlds
from tests.confirmations.world import World

ARGS = {"amount": 60000, "payee": "Initech", "card_number": "4111-1111"}
KIM = {"id": "u42", "name": "Kim", "email": "kim@elsewhere.test"}
TENANT = "tenant1"
_messages = itertools.count(1)


@dataclass(frozen=True)
class Seen:
    """An answer: its status and its body, decoded where it is JSON."""

    status: int
    body: Any


@dataclass
class Office:
    """``world`` has the people and the agent; ``key`` is the runtime's."""

    world: World
    key: str
    # Answers come back as a client would get them, also where the portal fails.
    http: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def call(self, method: str, path: str, body: Any = None, *, bearer: str | None = None) -> Seen:
        """One call of the REST API, as the runtime unless ``bearer`` says otherwise."""
        answer = self.http.generic(
            method,
            f"/api/v1{path}",
            b"" if body is None else json.dumps(body).encode(),
            "application/json",
            headers={"Authorization": f"Bearer {bearer or self.key}"},
        )
        return _seen(answer)

    def token(self, user: Person) -> str:
        """A person's token that may decide."""
        return tokens.issue(user=user, scopes=["read", "decide"], actor=audit.SHELL)[1]

    def question(self, **changes: Any) -> dict[str, Any]:
        """The body of a new request for the payment."""
        return {
            "agent": self.world.agent.slug,
            "conversation_id": "c7",
            "tool_call_id": uuid.uuid4().hex,
            "tool_name": "oa__purchase_pay",
            "tool_args": ARGS,
            "hook": "approval_gate",
            "registry_digest": self.world.digest(),
            "initiator": KIM,
            **changes,
        }

    def ask(self, **changes: Any) -> Any:
        """Ask, and return the resource."""
        seen = self.call("POST", "/confirmations", self.question(**changes))
        assert seen.status == 201, seen
        return seen.body

    def respond(self, request: Any, user: Person, decision: str = "approve", **more: Any) -> Seen:
        """A person decides over REST."""
        return self.call(
            "POST",
            f"/confirmations/{request['id']}/respond",
            {"decision": decision, **more},
            bearer=self.token(user),
        )

    def consume(self, request: Any, attempt: str = "") -> Seen:
        """The runtime wants to run what was approved."""
        body = {"args_digest": request["args_digest"], "attempt": attempt or str(uuid.uuid4())}
        return self.call("POST", f"/confirmations/{request['id']}/consume", body)

    def state(self, request: Any) -> tuple[str, int]:
        """The status in the database, and how many votes are recorded."""
        row = ConfirmationRequest.objects.get(pk=request["id"])
        return row.status, row.decisions.count()


def build() -> Office:
    """The confirmations' world with a runtime key; bob's account is ``ou_bob``, dave's ``ou_dave``."""
    world = worlds.build()
    world.bind(world.bob, "ou_bob")
    world.bind(world.dave, "ou_dave")
    return Office(world=world, key=make.key(world.organization, world.agent))


def shown(request: Any, channel: Channel | None = None) -> Delivery:
    """The request's card, as it is once the platform has taken it."""
    rows = Delivery.objects.select_related("channel__organization").filter(
        topic=f"confirmation:{request['id']}"
    )
    row = (rows.filter(channel=channel) if channel else rows).get()
    row.message_id, row.chat_id = f"om_{next(_messages)}", row.recipient
    row.handle = {"message_id": row.message_id, "chat_id": row.chat_id}
    row.status, row.shown_version, row.due_at, row.sent_at = "sent", row.wanted_version, None, clock.now()
    row.save()
    return row


def app(channel: Channel, **changes: Any) -> App:
    """The platform's own record of the channel's app: what it encrypts and signs with."""
    config = channel.config
    facts: dict[str, Any] = {
        "app_id": config["app_id"],
        "app_secret": config["app_secret"],
        "encrypt_key": config["encrypt_key"],
        "verification_token": config.get("verification_token") or "",
        "tenant_key": TENANT,
        "callback_url": None,
        "scopes": [],
        "name": "bot",
        "bot_open_id": "ou_bot",
        **changes,
    }
    return App(**facts)


def tap(
    card: Delivery,
    who: str,
    action: str = "approve",
    *,
    at: Channel | None = None,
    by: App | None = None,
    http: Client | None = None,
    now: float | None = None,
    tamper: str = "",
    **forged: Any,
) -> Seen:
    """Post a tap as the platform would.

    ``at`` is the channel whose address it goes to, ``by`` the app that signs it (default: the card's own), ``forged``
    replaces ``message_id``, ``chat_id`` or ``ref``.
    """
    signer = by or app(card.channel)
    press = callbacks.Press(
        message_id=forged.get("message_id", card.message_id),
        chat_id=forged.get("chat_id", card.chat_id),
        button_name="",
        value={"v": 1, "d": action, "n": forged.get("ref", card.ref)},
        form_value={"reason": "no"} if action == "reject" else None,
    )
    person = User(who, who, f"{who}@acme.test", f"on_{who}", f"id_{who}")
    moment = clock.now().timestamp() if now is None else now
    event = callbacks.event(signer, person, press, now=moment)
    request = callbacks.build(signer, event, now=moment, tamper=tamper)
    return post(at or card.channel, request.body, request.headers, http=http)


def post(channel: Channel, body: bytes, headers: dict[str, str], *, http: Client | None = None) -> Seen:
    """Post these bytes to a channel's callback address."""
    client = http or Client(raise_request_exception=False)
    kept = {name: value for name, value in headers.items() if name != "Content-Type"}
    address = f"/channels/{channel.organization.slug}/{channel.slug}/callback"
    return _seen(client.generic("POST", address, body, "application/json", headers=kept))


def _seen(answer: Any) -> Seen:
    kind = answer.headers.get("Content-Type", "")
    return Seen(answer.status_code, json.loads(answer.content) if answer.content and "json" in kind else None)
