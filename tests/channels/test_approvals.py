"""Real approvals over real HTTP: a request's card in the sandbox, tapped, decided and shown."""

from typing import Any

import pytest

from channels_app import channels
from channels_app.models import Delivery
from channels_app.outbox import deliveries
from channels_app.sandbox.server import SandboxServer
from hooks_app import confirmations
from hooks_app.models import ConfirmationRequest
from portal import audit
from tests.channels.conftest import APP_ID, CHAT, config, messages
from tests.channels.test_races import at_once
from tests.confirmations import world as worlds
from tests.confirmations.world import World
from tests.conftest import Clock


@pytest.fixture
def office(transactional_db: None, server: SandboxServer, live_server: Any, settings: Any) -> World:
    """The world of the confirmations' tests, its channel being the sandbox; bob and carol are bound."""
    settings.BASE_URL = live_server.url
    settings.ALLOWED_HOSTS = ["*"]
    built = worlds.build()
    built.channel = channels.save(
        organization=built.organization,
        slug=built.channel.slug,
        type="feishu",
        enabled=True,
        language="en",
        config=config(server),
        channel=built.channel,
    )
    server.control("apps", app_id=APP_ID, callback_url=channels.callback_url(built.channel))
    server.sandbox.add_user("ou_carol", "Carol", "carol@acme.test")
    server.sandbox.add_member(CHAT, "ou_carol")
    built.bind(built.bob, "ou_bob")
    built.bind(built.carol, "ou_carol")
    return built


def asked(office: World, **fields: Any) -> tuple[ConfirmationRequest, Delivery]:
    """A request whose card is in the chat."""
    row = office.ask(**fields)
    deliveries.sweep()
    return row, Delivery.objects.get(topic=f"confirmation:{row.pk}")


def press(server: SandboxServer, card: Delivery, who: str, button: str, **order: Any) -> dict[str, Any]:
    return server.control(
        "press", **{"message_id": card.message_id, "open_id": who, "button": button, **order}
    )


def now(row: ConfirmationRequest) -> ConfirmationRequest:
    return ConfirmationRequest.objects.get(pk=row.pk)


def test_a_payment_is_approved_by_a_tap(office: World, server: SandboxServer) -> None:
    row, card = asked(office)
    shown = str(messages(server)[0]["content"])
    assert "60000" in shown
    assert "Initech" in shown
    assert "4111-1111" not in shown  # redacted
    report = press(server, card, "ou_bob", "Approve")
    assert (report["accepted"], report["toast"]["type"]) == (True, "success")
    assert now(row).status == "approved"
    vote = row.decisions.get()
    assert (vote.user, vote.identity_facts["external_id"]) == (office.bob, "ou_bob")
    assert messages(server)[0]["view"]["buttons"][0]["text"] != "Approve"


def test_a_rejection_keeps_its_reason_as_it_was_written(office: World, server: SandboxServer) -> None:
    row, card = asked(office)
    reason = "No: <at id=all></at> **never**\nline two"
    assert press(server, card, "ou_bob", "Reject", form={"reason": reason})["toast"]["type"] == "success"
    assert (now(row).status, row.decisions.get().reason) == ("rejected", reason)
    for node in _texts(messages(server)[0]["content"]):
        assert node["tag"] == "plain_text"


def _texts(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        own = [value] if "content" in value and "tag" in value else []
        return own + [node for child in value.values() for node in _texts(child)]
    return [node for child in value for node in _texts(child)] if isinstance(value, list) else []


def test_a_stranger_is_told_their_id_and_decides_nothing(office: World, server: SandboxServer) -> None:
    row, card = asked(office)
    report = press(server, card, "ou_charlie", "Approve")
    assert report["toast"]["type"] == "warning"
    assert "ou_charlie" in report["toast"]["content"]
    assert (now(row).status, row.decisions.count()) == ("pending", 0)


def test_of_two_people_at_once_one_wins_and_the_other_is_told(office: World, server: SandboxServer) -> None:
    row, card = asked(office)
    found: dict[str, dict[str, Any]] = {}

    def tap(who: str, button: str, **order: Any) -> None:
        found[who] = press(server, card, who, button, version=0, **order)

    at_once(
        lambda: tap("ou_bob", "Approve"),
        lambda: tap("ou_carol", "Reject", form={"reason": "no"}),
    )
    assert {report["status"] for report in found.values()} == {200}
    assert sorted(report["toast"]["type"] for report in found.values()) == ["success", "warning"]
    assert row.decisions.count() == 1
    assert now(row).status in {"approved", "rejected"}
    deliveries.sweep()
    assert now(row).status in str(messages(server)[0]["content"]).lower()


def test_decided_in_the_inbox_the_card_is_patched_and_a_stale_tap_explained(
    office: World, server: SandboxServer
) -> None:
    row, card = asked(office)
    office.approve(row, office.carol)
    deliveries.sweep()
    assert "approved" in str(messages(server)[0]["content"]).lower()
    report = press(server, card, "ou_bob", "Reject", version=0, form={"reason": "late"})
    assert (report["status"], report["accepted"], report["toast"]["type"]) == (200, True, "warning")
    assert "carol" in report["toast"]["content"].lower()
    assert (now(row).status, row.decisions.count()) == ("approved", 1)


def test_a_late_tap_finds_the_request_expired(office: World, server: SandboxServer, time: Clock) -> None:
    row, card = asked(office)
    time.moment = row.expires_at
    report = press(server, card, "ou_bob", "Approve")
    assert (report["status"], report["toast"]["type"]) == (200, "warning")
    assert now(row).status != "approved"
    confirmations.sweep()
    deliveries.sweep()
    assert now(row).status == "expired"
    assert messages(server)[0]["view"]["title"]
    assert "Approve" not in [button["text"] for button in messages(server)[0]["view"]["buttons"]]


def test_an_expired_request_is_not_sent_any_more(office: World, server: SandboxServer, time: Clock) -> None:
    row = office.ask()
    time.moment = row.expires_at
    deliveries.sweep()
    assert messages(server) == []


def test_arguments_that_do_not_fit_leave_only_reject(office: World, server: SandboxServer) -> None:
    asked(office, tool_args={"note": "x" * 9000})
    labels = [button["text"] for button in messages(server)[0]["view"]["buttons"]]
    assert "Approve" not in labels
    assert "Reject" in labels


def test_channel_only_without_a_way_is_undeliverable(office: World, server: SandboxServer) -> None:
    office.set_agent(confirmation_mode="channel_only")
    server.control("members", chat_id=CHAT, app_id=APP_ID, present=False)
    row, card = asked(office)
    assert (card.status, now(row).status) == ("failed", "undeliverable")
    # An admin's second try finds that it has ended.
    server.control("members", chat_id=CHAT, app_id=APP_ID)
    deliveries.retry(card, audit.SHELL)
    deliveries.sweep()
    assert "Approve" not in str(messages(server))
