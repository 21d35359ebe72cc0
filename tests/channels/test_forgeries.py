"""Taps that somebody made up or bent: nothing of them may reach a decision."""

import json
from typing import Any

import pytest

from channels_app import channels
from channels_app.adapters.base import Reply
from channels_app.models import Channel, Interaction
from channels_app.sandbox.server import SandboxServer
from portal.models import Organization
from tests import make
from tests.channels.conftest import (
    APP_ID,
    CHAT,
    REJECT,
    Owner,
    again,
    card,
    messages,
    press,
    save,
    sent,
)


def test_an_old_replay_is_401(world: Channel, server: SandboxServer, owner: Owner) -> None:
    row = sent(world)
    assert press(server, row, skew_seconds=-301)["status"] == 401
    assert press(server, row, skew_seconds=301)["status"] == 401
    assert owner.taps == []


TAMPERED = {
    "signature": 401,
    "signature_missing": 401,
    "signature_empty": 401,
    "signature_short": 401,
    "signature_not_hex": 401,
    "signature_upper": 401,
    "timestamp_missing": 401,
    "timestamp_text": 401,
    "nonce": 401,
    "nonce_missing": 401,
    "body": 401,
    "reserialized": 401,
    "unsigned": 401,
    "plain": 401,
    "plain_unsigned": 401,
    "token": 401,
    "app_id": 403,
    "garbage": 400,
    "truncated": 400,
    "bad_padding": 400,
    "not_json": 400,
    "wrong_key": 400,
    "empty": 400,
    "oversize": 413,
}


@pytest.mark.parametrize(("tamper", "status"), TAMPERED.items())
def test_a_spoiled_callback_changes_nothing(
    world: Channel, server: SandboxServer, owner: Owner, tamper: str, status: int
) -> None:
    report = press(server, sent(world), tamper=tamper)
    assert report["status"] == status
    assert json.loads(report["body"])["status"] == status
    assert "Traceback" not in report["body"]
    assert (owner.taps, Interaction.objects.count()) == ([], 0)


@pytest.mark.parametrize("tamper", ["message_id", "chat_id"])
def test_the_right_reference_on_a_foreign_message_has_no_effect(
    world: Channel, server: SandboxServer, owner: Owner, tamper: str
) -> None:
    report = press(server, sent(world), tamper=tamper)
    assert (report["status"], report["toast"]["type"]) == (200, "warning")
    assert owner.taps == []
    assert (Interaction.objects.get().result, Interaction.objects.get().delivery) == ("unknown_card", None)


@pytest.mark.parametrize("ref", ["forged", "", 5])
def test_a_forged_reference_has_no_effect(
    world: Channel, server: SandboxServer, owner: Owner, ref: Any
) -> None:
    forged = {
        "event.action.value": {"v": 1, "d": "approve", "n": ref},
        "event.context.open_message_id": "om_x",
    }
    report = press(server, sent(world), set=forged)
    assert (report["status"], owner.taps) == (200, [])


def test_a_switched_off_channels_card_decides_nothing_at_a_siblings_address(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    row = sent(world)
    second = save(world.organization, server, "second")
    server.control("apps", app_id=APP_ID, callback_url=channels.callback_url(second))
    Channel.objects.filter(pk=world.pk).update(enabled=False)
    report = press(server, row)
    assert (report["status"], report["toast"]["content"]) == (200, "This channel is switched off.")
    assert owner.taps == []


def test_another_cards_reference_has_no_effect(world: Channel, server: SandboxServer, owner: Owner) -> None:
    one, two = sent(world, "t:1"), sent(world, "t:2")
    press(server, one, set={"event.action.value": {"v": 1, "d": "approve", "n": two.ref}})
    assert owner.taps == []


def test_a_button_that_the_card_does_not_show_has_no_effect(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    """The arguments were cut, so there is no Approve, whatever a client sends."""
    row = sent(world, body="x" * 7000)
    forged = {"event.action.value": {"v": 1, "d": "approve", "n": row.ref}}
    report = press(server, row, set=forged, **REJECT)
    assert (report["toast"]["type"], owner.taps) == ("warning", [])
    assert press(server, row, **REJECT)["toast"]["type"] == "success"


def test_a_card_sent_without_its_body_takes_no_approval_and_answers_without_it(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    server.control("failures", endpoint="send", status=400, body={"code": 230028, "msg": "DLP"})
    row = sent(world)
    assert row.status == "sent"
    forged = {"event.action.value": {"v": 1, "d": "approve", "n": row.ref}}
    assert press(server, row, set=forged, **REJECT)["toast"]["type"] == "warning"
    assert owner.taps == []
    owner.reply = Reply("1 of 2", ok=True, card=card(subtitle="1 of 2"))
    assert "60000" not in press(server, row, **REJECT)["body"]


def test_another_tenant_is_403_once_the_tenant_is_known(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    row = sent(world)
    owner.reply = Reply("Recorded", ok=True)
    assert press(server, row)["status"] == 200
    assert press(server, row, tamper="tenant")["status"] == 403
    assert len(owner.taps) == 1


def foreign(server: SandboxServer, organization: Organization, app_id: str = "cli_two") -> Channel:
    """A channel with another app in the same group."""
    server.sandbox.add_app(app_id, "secret-2", "key-2", "token-2", "tenant1", None)
    server.control("members", chat_id=CHAT, app_id=app_id)
    made = save(
        organization, server, "other", app_id=app_id, app_secret="secret-2", encrypt_key="key-2",
        verification_token="token-2",
    )  # fmt: skip
    server.control("apps", app_id=app_id, callback_url=channels.callback_url(made))
    return made


def test_another_apps_authentic_tap_cannot_decide_ours(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    """Both apps are one organization's; the second one signs with its own keys and names our message and reference."""
    ours = sent(world)
    theirs = sent(foreign(server, world.organization), "t:2")
    forged = {
        "event.context.open_message_id": ours.message_id,
        "event.action.value": {"v": 1, "d": "approve", "n": ours.ref},
    }
    report = press(server, theirs, set=forged)
    assert (report["status"], report["toast"]["type"], owner.taps) == (200, "warning", [])


def test_the_same_app_in_another_organization_cannot_decide_ours(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    """Anybody who has the app's keys may add a channel of it to an organization of their own."""
    ours = sent(world)
    mallory = save(make.organization("globex"), server, "ops-feishu")
    server.control("apps", app_id=APP_ID, callback_url=channels.callback_url(mallory))
    report = press(server, ours)
    assert (report["status"], report["toast"]["type"], owner.taps) == (200, "warning", [])


def test_a_foreign_apps_event_at_our_address_is_refused(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    theirs = sent(foreign(server, world.organization), "t:2")
    server.control("apps", app_id="cli_two", callback_url=channels.callback_url(world))
    assert press(server, theirs)["status"] == 401
    assert owner.taps == []


def test_an_unknown_card_is_not_adopted_from_another_chat(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    server.control("failures", endpoint="send", apply_then_drop=True)
    row = sent(world)
    message_id = messages(server)[0]["message_id"]
    press(server, row, message_id=message_id, tamper="chat_id")
    assert (again(row).status, again(row).message_id, owner.taps) == ("unknown", "", [])
