"""A channel whose platform is the sandbox on a real port, and an owner of topics that writes down what it is told."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from channels_app import channels, identities, topics
from channels_app.adapters.base import Reply, Tap
from channels_app.cards import Button, Card, Field, Reason, Tone
from channels_app.models import Channel, Delivery, Identity
from channels_app.outbox import deliveries
from channels_app.sandbox.feishu import FeishuSandbox
from channels_app.sandbox.server import SandboxServer
from portal.lib import clock
from portal.models import Organization
from tests import make
from tests.conftest import Clock

APP_ID, SECRET, ENCRYPT_KEY, TOKEN, TENANT = (
    "cli_one",
    "app-secret",
    "encrypt-key",
    "verification-token",
    "tenant1",
)
CHAT = "oc_finance"


def config(server: SandboxServer, **changes: Any) -> dict[str, Any]:
    """A channel's configuration that the sandbox agrees with."""
    return {
        "app_id": APP_ID,
        "app_secret": SECRET,
        "chat_id": CHAT,
        "encrypt_key": ENCRYPT_KEY,
        "verification_token": TOKEN,
        "base_url": server.feishu_url,
        **changes,
    }


def card(body: str = '{"amount": 60000}', *, ended: str = "", **changes: Any) -> Card:
    """A pending approval card, or with ``ended`` the one that says how it ended."""
    if ended:
        return Card(title=ended, tone=Tone.APPROVED, summary=ended)
    content: dict[str, Any] = {
        "title": "Approval needed",
        "tone": Tone.PENDING,
        "summary": "procurement wants to pay",
        "fields": (Field("Tool", "oa__purchase_pay"),),
        "body_label": "Arguments",
        "body": body,
        "cut_notice": "Too long: open the full request.",
        "buttons": (
            Button("approve", "Approve", "primary", needs_whole_body=True),
            Button("reject", "Reject", "danger", with_reason=True),
        ),
        "reason": Reason("Reason", required=True),
        "link_label": "Open",
        "link_url": "https://hookgate.test/inbox/1",
        **changes,
    }
    return Card(**content)


@dataclass
class Owner:
    """Owns the topics ``t:…``."""

    taps: list[tuple[Tap, Identity | None]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    locked: list[str] = field(default_factory=list)
    reply: Reply = field(
        default_factory=lambda: Reply("Recorded", ok=True, card=card(ended="Approved by Bob"))
    )
    fail: Exception | None = None

    def tap(self, *, delivery: Delivery, tap: Tap, identity: Identity | None) -> Reply:
        self.taps.append((tap, identity))
        if self.fail:
            raise self.fail
        if self.reply.card:
            ended = self.reply.card
            deliveries.replace(topic=delivery.topic, render=lambda channel: ended)
        return self.reply

    def lock(self, topic: str) -> None:
        self.locked.append(topic)

    def undelivered(self, *, delivery: Delivery) -> None:
        self.lost.append(delivery.topic)


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> Owner:
    made = Owner()
    monkeypatch.setitem(topics._owners, "t", made)
    return made


@pytest.fixture(autouse=True)
def _no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backoff without chance: the whole wait."""
    monkeypatch.setattr("random.uniform", lambda low, high: high)


@pytest.fixture(scope="session")
def _running() -> Iterator[SandboxServer]:
    sandbox = FeishuSandbox(source=lambda: clock.now().timestamp())
    with SandboxServer(sandbox) as server:
        yield server


@pytest.fixture(autouse=True)
def _buckets_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate buckets live by the portal's clock, which a test may hold still."""
    hands = SimpleNamespace(time=lambda: clock.now().timestamp())
    for module in ("memory", "redis"):
        monkeypatch.setattr(f"limits.storage.{module}.time", hands)


@pytest.fixture
def server(_running: SandboxServer, settings: Any, time: Clock) -> SandboxServer:
    """The sandbox, fresh: one app, one group, three people. The portal's clock is its clock, and stands still."""
    settings.CHANNEL_HOSTS = ["127.0.0.1"]
    sandbox = _running.sandbox
    sandbox.reset()
    sandbox.directory.load({"apps": [], "users": [], "chats": []})
    sandbox.add_app(APP_ID, SECRET, ENCRYPT_KEY, TOKEN, TENANT, None)
    sandbox.add_chat(CHAT, "Finance", bots=[APP_ID])
    for name in ("Alice", "Bob", "Charlie"):
        sandbox.add_user(f"ou_{name.lower()}", name, f"{name.lower()}@acme.test")
        sandbox.add_member(CHAT, f"ou_{name.lower()}")
    return _running


@pytest.fixture
def acme(db: None) -> Organization:
    return make.organization("acme")


@pytest.fixture
def channel(acme: Organization, server: SandboxServer) -> Channel:
    return save(acme, server)


def save(
    organization: Organization, server: SandboxServer, slug: str = "ops-feishu", **changes: Any
) -> Channel:
    """A saved channel of the sandbox."""
    return channels.save(
        organization=organization,
        slug=slug,
        type="feishu",
        enabled=True,
        language="en",
        config=config(server, **changes),
    )


def send(channel: Channel, topic: str = "t:1", body: str = '{"amount": 60000}', **more: Any) -> Delivery:
    """One enqueued delivery."""
    return deliveries.enqueue(channel=channel, topic=topic, card=card(body), **more)[0]


def replace(topic: str = "t:1", ended: str = "Approved by Bob") -> None:
    """The card that ends a topic."""
    deliveries.replace(topic=topic, render=lambda channel: card(ended=ended))


def again(row: Delivery) -> Delivery:
    """The row as it is in the database now."""
    return Delivery.objects.select_related("channel__app").get(pk=row.pk)


def messages(server: SandboxServer) -> list[dict[str, Any]]:
    """What the group shows, oldest first."""
    found: list[dict[str, Any]] = server.look("messages", chat_id=CHAT)["messages"]
    return found


def texts(message: dict[str, Any]) -> str:
    """All of a message's JSON as one text, to look for words in."""
    return str(message["content"])


def fail(server: SandboxServer, endpoint: str = "send", **plan: Any) -> None:
    server.control("failures", endpoint=endpoint, **plan)


def refuse(server: SandboxServer, code: int, endpoint: str = "send", **plan: Any) -> None:
    fail(server, endpoint, status=400, body={"code": code, "msg": "as planned"}, **plan)


@pytest.fixture
def world(channel: Channel, server: SandboxServer, owner: Owner, live_server: Any, settings: Any) -> Channel:
    """The sandbox calls the portal, and bob is bound."""
    settings.BASE_URL = live_server.url
    settings.ALLOWED_HOSTS = ["*"]
    server.control("apps", app_id=APP_ID, callback_url=channels.callback_url(channel))
    bob = make.user("bob", channel.organization)
    identities.bind(organization=channel.organization, user=bob, channel=channel, external_id="ou_bob")
    return channel


def sent(channel: Channel, topic: str = "t:1", **more: Any) -> Delivery:
    row = send(channel, topic, **more)
    deliveries.sweep()
    return again(row)


def press(server: SandboxServer, row: Delivery, button: str = "Approve", **order: Any) -> dict[str, Any]:
    return server.control(
        "press", **{"message_id": row.message_id, "open_id": "ou_bob", "button": button, **order}
    )


REJECT: dict[str, Any] = {"button": "Reject", "form": {"reason": "too much <at id=all></at>"}}
