"""Platforms of installed packages: found by entry point, used like our own."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import Field, SecretStr

from channels_app import adapters, channels
from channels_app.adapters.base import (
    Adapter,
    AdapterConfig,
    Answer,
    Chat,
    CheckResult,
    Handle,
    InboundRequest,
    Reply,
    Tap,
)
from channels_app.adapters.feishu import FeishuAdapter
from channels_app.cards import Card
from channels_app.outbox import deliveries, dispatch
from portal.lib.problems import Problem
from portal.models import Organization
from tests.channels.conftest import again, card, send

SENT: list[tuple[str, str, str]] = []


class PigeonConfig(AdapterConfig):
    """A dovecote."""

    loft: str = Field(min_length=1)
    seed: SecretStr
    base_url: str = "https://pigeon.test"


class Pigeon(Adapter):
    """Two recipients per channel."""

    type = "pigeon"
    title = "Pigeon post"
    config_model = PigeonConfig
    hosts = ("pigeon.test",)
    send_rate = "100/second"
    update_rate = "100/second"
    repeat_seconds = 0

    @classmethod
    def app_key(cls, config: Any) -> str:
        return str(config.loft)

    @classmethod
    def recipients(cls, config: Any) -> list[str]:
        return ["north", "south"]

    @classmethod
    def unusable(cls, config: Any) -> str | None:
        return None

    def fit(self, card: Card) -> Card:
        return card

    def render(self, card: Card, ref: str) -> dict[str, Any]:
        return card.to_json()

    def send(self, recipient: str, card: Card, ref: str, *, key: str) -> Handle:
        if recipient == "south":
            raise RuntimeError("a hawk")
        SENT.append((recipient, card.title, key))
        return Handle(f"leg-{len(SENT)}", recipient, {"ring": 7})

    def update(self, handle: Handle, card: Card, ref: str) -> None:
        SENT.append((handle.message_id, card.title, str(handle.more)))

    def receive(self, request: InboundRequest) -> Tap | Answer:
        return Answer(200, b"coo")

    def answer(self, reply: Reply) -> Answer:
        return Answer(200, reply.text.encode())

    def check(self) -> list[CheckResult]:
        return []

    def chats(self) -> list[Chat]:
        return []


def entry(name: str, load: Any) -> Any:
    return SimpleNamespace(name=name, load=load)


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def burst() -> None:
        raise ImportError("no feathers")

    class Impostor(Pigeon):
        type = "feishu"

    found = [
        entry("broken", burst),
        entry("impostor", lambda: Impostor),
        entry("nonsense", lambda: 5),
        entry("pigeon", lambda: Pigeon),
    ]
    monkeypatch.setattr(
        adapters, "entry_points", lambda *, group: found if group == "hookgate.adapters" else []
    )
    adapters.installed.cache_clear()
    SENT.clear()
    yield
    adapters.installed.cache_clear()


def pigeon(organization: Organization, **changes: Any) -> Any:
    settings = {"loft": "roof", "seed": "corn", **changes}
    return channels.save(
        organization=organization, slug="loft", type="pigeon", enabled=True, language="ko", config=settings
    )


@pytest.mark.usefixtures("_installed")
def test_a_packages_platform_is_known_and_none_of_ours_is_replaced() -> None:
    assert dict(channels.types())["pigeon"] == "Pigeon post"
    assert channels.adapter_class("feishu") is FeishuAdapter
    assert channels.secret_fields("pigeon") == {"seed"}


@pytest.mark.usefixtures("_installed")
def test_its_channels_deliver_to_each_recipient_apart(acme: Organization) -> None:
    channel = pigeon(acme)
    north, south = deliveries.enqueue(channel=channel, topic="x:1", card=card())
    deliveries.sweep()
    assert (again(north).status, again(north).handle) == (
        "sent",
        {"message_id": "leg-1", "chat_id": "north", "ring": 7, "body_hidden": False},
    )
    assert [("north", "Approval needed", f"hg-{north.pk}")] == SENT
    # A defect of foreign code may have happened after the message left, and this platform has no keys.
    assert (again(south).status, again(south).last_error) == ("unknown", "internal: RuntimeError")


@pytest.mark.usefixtures("_installed")
def test_without_keys_nothing_doubtful_is_sent_again(acme: Organization, time: Any) -> None:
    _, south = deliveries.enqueue(channel=pigeon(acme), topic="x:1", card=card())
    deliveries.sweep()
    time.advance(seconds=600)
    deliveries.sweep()
    assert (again(south).status, again(south).attempts, again(south).due_at) == ("unknown", 1, None)


def test_without_its_package_a_type_is_unknown() -> None:
    with pytest.raises(Problem, match="no adapter of type 'pigeon'"):
        channels.adapter_class("pigeon")


def test_one_broken_row_does_not_stop_the_sweep(
    channel: Any, server: Any, owner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, good = send(channel, "t:1"), send(channel, "t:2")
    bring = dispatch.bring

    def burst(ids: Any) -> int:
        if broken.pk in ids:
            raise ValueError("unreadable")
        return bring(ids)

    monkeypatch.setattr(dispatch, "bring", burst)
    assert deliveries.sweep() == 1
    assert again(good).status == "sent"
    assert deliveries.sweep() == 0  # the broken one is out of the way for a while
