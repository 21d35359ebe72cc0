"""The doors through which a portal is reached from outside: a person's and a runtime's REST calls, and signed taps."""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.test import Client

from channels_app.adapters.base import Reply
from channels_app.models import Delivery
from channels_app.sandbox import callbacks
from channels_app.sandbox.directory import App
from channels_app.sandbox.directory import User as Account
from hooks_app.models import ConfirmationRequest
from portal import audit
from portal.lib import clock
from portal.lib.problems import Problem
from portal.models import User
from portal.people import tokens
from tests import make
from tests.confirmations.world import World

# What a tap is told, by how it begins, and the status that this tells.
TOASTS = {
    "Approval recorded": "approved",
    "Already approved": "approved",
    "Rejection recorded": "rejected",
    "Already rejected": "rejected",
    "Too late": "expired",
    "Your approval counts": "pending",
    "Your rejection counts": "pending",
    "This request has ended": "ended",
}
ENDED = "The request has ended: "


@dataclass(frozen=True)
class Answer:
    """Status and decoded body of one HTTP answer."""

    status: int
    body: dict[str, Any]

    @property
    def accepted(self) -> bool:
        """Whether the portal says that what was asked for is done."""
        toast = self.body.get("toast")
        return self.status < 300 and (toast is None or toast["type"] == "success")


def _post(path: str, body: bytes, headers: dict[str, str]) -> Answer:
    response = Client().post(path, body, content_type="application/json", headers=headers)
    return Answer(response.status_code, json.loads(response.content))


class Rest:
    """One caller of the REST API: ``bearer`` is a person's token or a runtime's key."""

    def __init__(self, bearer: str) -> None:
        self.headers = {"Authorization": f"Bearer {bearer}"}

    def post(self, path: str, body: dict[str, Any] | None = None, *, runtime: str = "worker-1") -> Answer:
        """POST JSON."""
        named = {**self.headers, "Hookgate-Runtime": runtime}
        return _post(f"/api/v1{path}", json.dumps(body or {}).encode(), named)

    def respond(self, row: ConfirmationRequest, decision: str) -> Answer:
        """Decide as a person."""
        return self.post(f"/confirmations/{row.pk}/respond", {"decision": decision})

    def consume(self, row: ConfirmationRequest, attempt: uuid.UUID) -> Answer:
        """Use an approval as a runtime."""
        return self.post(
            f"/confirmations/{row.pk}/consume", {"args_digest": row.args_digest, "attempt": str(attempt)}
        )


def person(user: User) -> Rest:
    """The person's own client."""
    return Rest(tokens.issue(user=user, scopes=("read", "decide"), actor=audit.SHELL)[1])


def runtime(world: World) -> Rest:
    """A runtime of the world's agent."""
    return Rest(make.key(world.organization, world.agent))


def sent(row: ConfirmationRequest) -> Delivery:
    """The request's card, as if the platform had it: in the chat, under a message id of its own."""
    card = Delivery.objects.get(topic=f"confirmation:{row.pk}")
    card.message_id, card.chat_id = f"om_{row.pk.hex}", card.recipient
    card.handle = {"message_id": card.message_id, "chat_id": card.chat_id}
    card.status, card.shown_version, card.due_at, card.sent_at = "sent", 1, None, clock.now()
    card.save()
    return card


def tap(card: Delivery, external_id: str, action: str) -> Callable[[], Answer]:
    """A job that posts one encrypted and signed tap on ``card``, made and signed before it is run."""
    config = card.channel.config
    app = App(
        app_id=config["app_id"],
        app_secret=config["app_secret"],
        encrypt_key=config["encrypt_key"],
        verification_token=config["verification_token"],
        tenant_key="tenant",
        callback_url=None,
        scopes=[],
        name="bot",
        bot_open_id="ou_bot",
    )
    account = Account(external_id, external_id, "", f"on_{external_id}", f"u_{external_id}")
    value = {"v": 1, "d": action, "n": card.ref}
    press = callbacks.Press(card.message_id, card.chat_id, f"d_{action}", value, None)
    now = clock.now().timestamp()
    made = callbacks.build(app, callbacks.event(app, account, press, now=now), now=now)
    path = f"/channels/{card.organization.slug}/{card.channel.slug}/callback"
    headers = {name: text for name, text in made.headers.items() if name != "Content-Type"}
    return lambda: _post(path, made.body, headers)


def told(result: Any) -> str:
    """The status that a caller was told, whatever the door; a refusal that tells none is its code.

    A tap on a request that was cancelled or could not be delivered is told that it has ended, and no more.
    """
    match result:
        case ConfirmationRequest():
            return result.status
        case Problem():
            return _of_problem(result.code, result.detail)
        case Reply():
            return _of_toast(result.text)
        case Answer(body={"toast": {"content": text}}):
            return _of_toast(text)
        case Answer(body={"code": code, "detail": detail}):
            return _of_problem(code, detail)
        case Answer(body={"status": status}):
            return str(status)
    raise TypeError(f"no answer of the portal: {result!r}")


def _of_problem(code: str, detail: str) -> str:
    if code == "already_decided":
        return detail.removeprefix(ENDED).rstrip(".")
    return code


def _of_toast(text: str) -> str:
    return next((status for start, status in TOASTS.items() if text.startswith(start)), text)
