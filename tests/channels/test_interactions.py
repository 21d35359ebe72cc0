"""Taps over real HTTP: from the sandbox's signed callback to the platform's answer."""

import json
import threading
from datetime import timedelta
from typing import Any

import httpx
import pytest

from channels_app import channels
from channels_app.adapters.base import Reply
from channels_app.models import App, Channel, Interaction
from channels_app.outbox import deliveries
from channels_app.sandbox.server import SandboxServer
from tests.channels.conftest import (
    APP_ID,
    CHAT,
    ENCRYPT_KEY,
    REJECT,
    SECRET,
    TOKEN,
    Owner,
    again,
    messages,
    press,
    replace,
    save,
    sent,
)
from tests.conftest import Clock


def test_a_tap_reaches_its_owner_and_is_answered_with_the_card(
    world: Channel, server: SandboxServer, owner: Owner, time: Clock
) -> None:
    row = sent(world)
    report = press(server, row)
    assert report["accepted"] is True
    assert report["toast"] == {"type": "success", "content": "Recorded"}
    assert report["card_replaced"] is True
    assert "Approved by Bob" in str(messages(server)[0]["content"])
    ((tap, identity),) = owner.taps
    assert (tap.action, tap.external_id, tap.chat_id, tap.reason) == ("approve", "ou_bob", CHAT, None)
    assert identity is not None
    assert identity.user.username == "bob"
    kept = Interaction.objects.get()
    assert (kept.delivery_id, kept.result, kept.event_id) == (row.pk, "accepted", report["event_id"])
    app = App.objects.get(pk=world.app_id)
    assert (app.tenant_key, app.last_callback_at) == ("tenant1", time.moment)


def test_the_card_is_also_updated_by_a_call(world: Channel, server: SandboxServer) -> None:
    row = sent(world)
    press(server, row)
    deliveries.sweep()
    assert len(server.look("calls", endpoint="update")["calls"]) == 1
    assert again(row).shown_version == 2


def test_the_reason_arrives(world: Channel, server: SandboxServer, owner: Owner) -> None:
    press(server, sent(world), **REJECT)
    assert (owner.taps[0][0].action, owner.taps[0][0].reason) == ("reject", "too much <at id=all></at>")


def test_a_form_without_value_is_found_by_its_message(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    report = press(server, sent(world), omit_value=True, **REJECT)
    assert report["toast"]["type"] == "success"
    assert (owner.taps[0][0].action, owner.taps[0][0].ref) == ("reject", "")


def test_the_old_shape_is_understood(world: Channel, server: SandboxServer, owner: Owner) -> None:
    assert press(server, sent(world), old_shape=True)["accepted"] is True
    assert len(owner.taps) == 1


def test_the_answer_may_go_without_a_card(world: Channel, server: SandboxServer) -> None:
    Channel.objects.filter(pk=world.pk).update(config={**world.config, "answer_with_card": False})
    report = press(server, sent(world))
    assert json.loads(report["body"]) == {"toast": {"type": "success", "content": "Recorded"}}


def test_an_unbound_account_reaches_the_owner_without_identity(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    press(server, sent(world), open_id="ou_alice")
    ((tap, identity),) = owner.taps
    assert (tap.external_id, identity) == ("ou_alice", None)


def test_a_refusal_is_200_with_a_toast(world: Channel, server: SandboxServer, owner: Owner) -> None:
    owner.reply = Reply("You may not decide this.", ok=False)
    report = press(server, sent(world))
    assert (report["status"], report["accepted"]) == (200, True)
    assert report["toast"] == {"type": "warning", "content": "You may not decide this."}
    assert Interaction.objects.get().result == "refused"


def test_a_replay_gets_the_stored_answer(world: Channel, server: SandboxServer, owner: Owner) -> None:
    report = press(server, sent(world), repeat=3)
    assert len({answer["body"] for answer in report["answers"]}) == 1
    assert {answer["status"] for answer in report["answers"]} == {200}
    assert len(owner.taps) == 1
    assert Interaction.objects.count() == 1


def test_copies_at_the_same_time_get_one_answer(world: Channel, server: SandboxServer, owner: Owner) -> None:
    report = press(server, sent(world), repeat=8, together=True)
    assert len({answer["body"] for answer in report["answers"]}) == 1
    assert len(owner.taps) == 1


def test_lower_case_headers_and_other_events_pass(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    row = sent(world)
    assert press(server, row, tamper="event_type")["body"] == "{}"
    assert owner.taps == []
    assert press(server, row, tamper="lower_headers")["accepted"] is True
    assert len(owner.taps) == 1


def test_a_tap_may_arrive_at_any_address_of_its_app(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    second = save(world.organization, server, "second")
    server.control("apps", app_id=APP_ID, callback_url=channels.callback_url(second))
    assert press(server, sent(world))["toast"]["type"] == "success"
    assert Interaction.objects.get().channel_id == second.pk


def test_a_tap_names_the_message_whose_send_was_unknown(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    owner.reply = Reply("Recorded", ok=True)
    server.control("failures", endpoint="send", apply_then_drop=True)
    row = sent(world)
    assert row.status == "unknown"
    message_id = messages(server)[0]["message_id"]
    report = press(server, row, message_id=message_id)
    assert report["toast"]["type"] == "success"
    row = again(row)
    assert (row.status, row.message_id, row.chat_id, row.shown_version) == ("sent", message_id, CHAT, 1)
    assert len(owner.taps) == 1
    deliveries.sweep()
    assert len(messages(server)) == 1


def test_a_broken_owner_is_answered_and_the_next_tap_counts(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    owner.fail = RuntimeError("broken")
    row = sent(world)
    report = press(server, row)
    assert (report["status"], report["toast"]["type"]) == (200, "warning")
    assert Interaction.objects.count() == 0
    owner.fail = None
    assert press(server, row)["toast"]["type"] == "success"


def test_a_tap_on_an_ended_card_still_reaches_its_owner(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    """A client that has not refreshed shows the old buttons; the owner explains what happened."""
    row = sent(world)
    replace(ended="Expired")
    deliveries.sweep()
    assert press(server, row, version=0)["accepted"] is True
    assert len(owner.taps) == 1


def test_the_url_check(world: Channel, server: SandboxServer) -> None:
    assert server.control("url_verification", app_id=APP_ID)["ok"] is True
    assert server.control("url_verification", app_id=APP_ID, token="another")["status"] == 401


@pytest.mark.parametrize("path", ["nobody/ops-feishu", "acme/nothing", "acme/off"])
def test_an_unknown_or_switched_off_channel_is_404(
    world: Channel, server: SandboxServer, live_server: Any, path: str
) -> None:
    Channel.objects.filter(pk=save(world.organization, server, "off").pk).update(enabled=False)
    for method in ("GET", "POST"):
        answer = httpx.request(method, f"{live_server.url}/channels/{path}/callback", trust_env=False)
        assert answer.status_code == 404


def test_get_is_not_authentic_for_feishu(world: Channel) -> None:
    assert httpx.get(channels.callback_url(world), trust_env=False).status_code == 401


def test_a_test_message_confirms_the_way_back(world: Channel, server: SandboxServer) -> None:
    (row,) = channels.send_test(world)
    deliveries.sweep()
    report = press(server, again(row), button="It works")
    assert report["toast"] == {"type": "success", "content": "The tap has arrived."}
    assert "bob" in str(messages(server)[0]["content"])


def test_neither_body_nor_secrets_are_logged(
    world: Channel, server: SandboxServer, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    caplog.set_level("DEBUG")
    row = sent(world)
    for tamper in ("signature", "token", "garbage", "plain", ""):
        report = press(server, row, tamper=tamper)
    assert report["accepted"] is True
    text = caplog.text + "".join(capfd.readouterr())
    assert "callback.refused" in text
    for secret in (SECRET, ENCRYPT_KEY, TOKEN, row.ref, "ou_bob", report["request"]["body"][:60], "60000"):
        assert secret not in text


def test_the_stored_answer_is_encrypted(world: Channel, server: SandboxServer) -> None:
    from django.db import connection

    press(server, sent(world))
    with connection.cursor() as cursor:
        cursor.execute("SELECT answer FROM channels_app_interaction")
        assert "Approved" not in cursor.fetchone()[0]


def test_two_people_at_once_reach_the_owner_one_after_the_other(
    world: Channel, server: SandboxServer, owner: Owner
) -> None:
    row = sent(world)
    found: list[dict[str, Any]] = []
    people = [
        threading.Thread(target=lambda who=who: found.append(press(server, row, open_id=who)))
        for who in ("ou_bob", "ou_alice")
    ]
    for person in people:
        person.start()
    for person in people:
        person.join(20)
    assert [report["status"] for report in found] == [200, 200]
    assert Interaction.objects.count() == 2
    assert len(owner.taps) == 2


def test_an_answer_is_quick(world: Channel, server: SandboxServer) -> None:
    """The platform gives up after three seconds; a tenth of that is ours."""
    assert press(server, sent(world))["elapsed_ms"] < timedelta(seconds=1) / timedelta(milliseconds=1)
