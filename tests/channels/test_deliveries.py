"""The outbox against a platform that misbehaves in every documented way."""

import threading
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.db import connection, transaction

from channels_app import channels
from channels_app.models import Channel
from channels_app.outbox import claims, deliveries, dispatch, pokes
from channels_app.sandbox.server import SandboxServer
from portal.celery import app as celery
from portal.lib import clock
from tests.channels.conftest import Owner, again, card, fail, messages, replace, save, send, texts
from tests.conftest import Clock


def test_a_card_is_sent_once_and_then_at_rest(channel: Channel, server: SandboxServer, owner: Owner) -> None:
    row = send(channel)
    assert row.status == "queued"
    assert deliveries.sweep() == 1
    assert deliveries.sweep() == 0
    row = again(row)
    shown = messages(server)
    assert len(shown) == 1
    assert (row.status, row.attempts, row.due_at, row.lease) == ("sent", 1, None, None)
    assert (row.message_id, row.chat_id) == (shown[0]["message_id"], shown[0]["chat_id"])
    assert [button["text"] for button in shown[0]["view"]["buttons"]][:2] == ["Approve", "Reject"]
    assert row.attempt_rows.get().result == "ok"
    assert deliveries.represent(["t:1"])["t:1"] == [
        {
            "channel": "ops-feishu",
            "recipient": "oc_finance",
            "status": "sent",
            "attempts": 1,
            "last_error": None,
        }
    ]


def test_a_rolled_back_owner_sends_nothing(channel: Channel, server: SandboxServer) -> None:
    with transaction.atomic():
        send(channel)
        transaction.set_rollback(True)
    assert deliveries.sweep() == 0
    assert messages(server) == []


def test_a_lost_answer_leads_to_one_card(
    channel: Channel, server: SandboxServer, owner: Owner, time: Clock
) -> None:
    fail(server, apply_then_drop=True)
    row = send(channel)
    deliveries.sweep()
    row = again(row)
    assert (row.status, row.handle) == ("unknown", None)
    assert row.due_at is not None
    time.moment = row.due_at
    deliveries.sweep()
    row = again(row)
    assert (row.status, row.attempts, len(messages(server))) == ("sent", 2, 1)
    assert row.message_id == messages(server)[0]["message_id"]
    assert owner.lost == []


def test_the_end_reaches_a_card_whose_send_was_unknown(
    channel: Channel, server: SandboxServer, time: Clock
) -> None:
    """The key makes the platform keep the first content, so the newest one must follow as an update."""
    fail(server, apply_then_drop=True)
    row = send(channel)
    deliveries.sweep()
    replace(ended="Expired")
    assert again(row).status == "unknown"
    time.advance(seconds=5)
    deliveries.sweep()
    deliveries.sweep()
    shown = messages(server)
    assert len(shown) == 1
    assert "Expired" in texts(shown[0])
    assert shown[0]["view"]["buttons"] == []
    assert (again(row).shown_version, again(row).wanted_version) == (2, 2)


def test_unknown_is_not_repeated_after_the_platforms_window(
    channel: Channel, server: SandboxServer, time: Clock, owner: Owner
) -> None:
    fail(server, apply_then_drop=True)
    row = send(channel)
    deliveries.sweep()
    time.advance(seconds=3600 - dispatch.REPEAT_MARGIN)
    deliveries.sweep()
    row = again(row)
    assert (row.status, row.due_at, row.attempts) == ("unknown", None, 1)
    assert "not sent again" in (row.last_error or "")
    assert len(server.look("calls", endpoint="send")["calls"]) == 1


def test_a_worker_killed_between_send_and_commit_leaves_one_card(
    channel: Channel, server: SandboxServer, time: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = send(channel)

    class Killed(BaseException):
        pass

    def die(*args: Any, **kwargs: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(claims, "settle_ok", die)
        with pytest.raises(Killed):
            deliveries.deliver([row.pk])
    assert again(row).status == "sending"
    assert len(messages(server)) == 1
    assert deliveries.sweep() == 0  # the lease holds
    time.advance(seconds=claims.LEASE)
    assert deliveries.sweep() == 1
    assert (again(row).status, len(messages(server))) == ("sent", 1)
    assert {call["uuid"] for call in messages(server)} == {f"hg-{row.pk}"}


def test_nobody_is_asked_about_what_has_ended_before_it_was_sent(
    channel: Channel, server: SandboxServer
) -> None:
    row = send(channel)
    replace()
    assert (again(row).status, again(row).due_at) == ("superseded", None)
    deliveries.sweep()
    assert messages(server) == []


def test_a_waiting_card_is_replaced_by_a_newer_question(channel: Channel, server: SandboxServer) -> None:
    row = send(channel)
    deliveries.replace(topic="t:1", render=lambda channel: card('{"amount": 1}', subtitle="1 of 2"))
    deliveries.sweep()
    assert "1 of 2" in texts(messages(server)[0])
    assert (again(row).status, again(row).shown_version, len(messages(server))) == ("sent", 2, 1)


def test_too_late_to_send_is_superseded(channel: Channel, server: SandboxServer, time: Clock) -> None:
    row = send(channel, send_before=time.moment + timedelta(seconds=10))
    time.advance(seconds=10)
    deliveries.sweep()
    assert (again(row).status, messages(server)) == ("superseded", [])


def test_updates_coalesce_to_the_newest(channel: Channel, server: SandboxServer) -> None:
    row = send(channel)
    deliveries.sweep()
    for number in range(20):
        replace(ended=f"version {number}")
    deliveries.sweep()
    deliveries.sweep()
    assert len(server.look("calls", endpoint="update")["calls"]) == 1
    assert "version 19" in texts(messages(server)[0])
    assert (again(row).shown_version, again(row).wanted_version) == (21, 21)


def test_the_same_card_again_is_no_update(channel: Channel, server: SandboxServer) -> None:
    send(channel)
    deliveries.sweep()
    replace()
    deliveries.sweep()
    replace()
    assert deliveries.sweep() == 0
    assert len(server.look("calls", endpoint="update")["calls"]) == 1


def test_a_card_wanted_while_sending_is_shown_next(
    channel: Channel, server: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = send(channel)
    act = dispatch._act

    def meanwhile(*args: Any) -> Any:
        sent = act(*args)
        replace(ended="Cancelled")
        return sent

    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "_act", meanwhile)
        deliveries.deliver([row.pk])
    assert (again(row).status, again(row).shown_version) == ("sent", 1)
    deliveries.sweep()
    assert "Cancelled" in texts(messages(server)[0])


def test_the_buckets_hold_back_the_sixth_card_of_a_second(channel: Channel, server: SandboxServer) -> None:
    rows = [send(channel, f"t:{number}") for number in range(8)]
    assert deliveries.sweep() == 5
    held = [again(row) for row in rows if again(row).status == "queued"]
    assert len(held) == 3
    assert all(row.due_at and row.due_at > clock.now() and row.attempts == 0 for row in held)


def test_channels_of_one_app_share_the_bucket_of_a_chat(channel: Channel, server: SandboxServer) -> None:
    other = save(channel.organization, server, "second")
    assert other.app_id == channel.app_id
    for number in range(4):
        send(channel, f"t:{number}")
        send(other, f"u:{number}")
    assert deliveries.sweep() == 5


@pytest.mark.django_db(transaction=True)
def test_a_dead_broker_neither_raises_nor_delays(
    channel: Channel, server: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def down(*args: Any, **kwargs: Any) -> None:
        calls.append(args)
        raise ConnectionError("no broker")

    monkeypatch.setattr(pokes, "_resting_until", 0.0)
    monkeypatch.setattr(celery, "send_task", down)
    for number in range(10):
        send(channel, f"t:{number}")
    assert len(calls) == 1  # after the first failure the broker is left alone for a while
    assert deliveries.sweep() == 5


@pytest.mark.django_db(transaction=True)
def test_two_workers_deliver_one_row_once(channel: Channel, server: SandboxServer) -> None:
    row = send(channel)
    fail(server, "token", delay_ms=200)
    barrier = threading.Barrier(6)
    done: list[int] = []

    def work() -> None:
        barrier.wait(5)
        done.append(deliveries.deliver([row.pk]))
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
    assert sorted(done) == [0, 0, 0, 0, 0, 1]
    assert len(server.look("calls", endpoint="send")["calls"]) == 1


def test_the_reference_and_the_card_are_not_in_clear(channel: Channel) -> None:
    row = send(channel, body="IBAN DE00")
    with connection.cursor() as cursor:
        cursor.execute("SELECT card, ref, ref_digest FROM channels_app_delivery")
        stored = cursor.fetchone()
    assert "IBAN" not in stored[0]
    assert row.ref not in stored[1]
    assert row.ref not in stored[2]


def test_a_test_message_goes_out_and_comes_back(channel: Channel, server: SandboxServer) -> None:
    (row,) = channels.send_test(channel)
    deliveries.sweep()
    assert again(row).status == "sent"
    assert [button["text"] for button in messages(server)[0]["view"]["buttons"]] == ["It works"]


def test_the_sandbox_is_what_answered(server: SandboxServer) -> None:
    """The other tests mean nothing if the platform is not strict: it refuses a call without a token."""
    answer = httpx.get(f"{server.feishu_url}/open-apis/im/v1/chats", trust_env=False)
    assert answer.json()["code"] == 99991661
