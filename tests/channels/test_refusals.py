"""What becomes of a delivery that the platform refuses, in every documented way."""

from datetime import timedelta
from typing import Any

import pytest

from channels_app.adapters.feishu import FeishuAdapter
from channels_app.models import Channel, Delivery
from channels_app.outbox import deliveries, dispatch
from channels_app.sandbox.server import SandboxServer
from portal import audit
from portal.lib import clock
from portal.lib.problems import Problem
from portal.models import AuditEvent
from tests.channels.conftest import Owner, again, card, fail, messages, refuse, replace, send, texts
from tests.conftest import Clock


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        ({"status": 400, "body": {"code": 230020, "msg": "frequency"}}, "230020"),
        ({"status": 400, "body": {"code": 230049, "msg": "being sent"}}, "230049"),
        ({"status": 200, "body": {"code": 11232, "msg": "old limit"}}, "11232"),
    ],
)
def test_a_busy_platform_is_asked_again(
    channel: Channel, server: SandboxServer, time: Clock, plan: dict[str, Any], code: str
) -> None:
    fail(server, **plan)
    row = send(channel)
    deliveries.sweep()
    row = again(row)
    assert row.status == "queued"
    assert (row.last_error or "").startswith(code)
    assert row.due_at == time.moment + timedelta(seconds=1)
    time.advance(seconds=1)
    deliveries.sweep()
    assert (again(row).status, again(row).last_error, len(messages(server))) == ("sent", None, 1)


def test_backoff_doubles_up_to_a_cap(
    channel: Channel, server: SandboxServer, time: Clock, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FeishuAdapter, "send_rate", "1000/second")  # buckets refill by the real clock
    fail(server, status=400, body={"code": 230020, "msg": "frequency"}, count=50)
    row = send(channel)
    waits = []
    for _ in range(11):
        deliveries.sweep()
        due = again(row).due_at
        assert due is not None
        waits.append((due - time.moment).total_seconds())
        time.moment = due
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_the_platforms_own_wish_wins(channel: Channel, server: SandboxServer, time: Clock) -> None:
    fail(server, status=429, headers={"x-ogw-ratelimit-reset": "37"}, body={"code": 99991400, "msg": "slow"})
    row = send(channel)
    deliveries.sweep()
    assert again(row).due_at == time.moment + timedelta(seconds=37)
    time.advance(seconds=36)
    assert deliveries.sweep() == 0
    time.advance(seconds=1)
    assert deliveries.sweep() == 1
    assert server.look("counters")["early"] == 0


def test_a_server_error_may_have_arrived_and_is_repeated_with_the_same_key(
    channel: Channel, server: SandboxServer, time: Clock
) -> None:
    fail(server, status=502, body="bad gateway")
    row = send(channel)
    deliveries.sweep()
    assert again(row).status == "unknown"
    time.advance(seconds=2)
    deliveries.sweep()
    assert (again(row).status, len(messages(server))) == ("sent", 1)


def test_no_connection_is_repeated_without_doubt(channel: Channel, server: SandboxServer) -> None:
    dead = {**channel.config, "base_url": "http://127.0.0.1:9"}
    Channel.objects.filter(pk=channel.pk).update(config=dead)
    row = send(channel)
    deliveries.sweep()
    assert again(row).status == "queued"
    assert (again(row).last_error or "").startswith("network")


@pytest.mark.parametrize("code", [230001, 230002, 230013, 230018, 230022, 230034, 232009, 99991672, 424242])
def test_a_final_refusal_is_told_to_everybody(
    channel: Channel, server: SandboxServer, owner: Owner, code: int
) -> None:
    refuse(server, code)
    row = send(channel)
    deliveries.sweep()
    row = again(row)
    assert (row.status, row.due_at) == ("failed", None)
    assert (row.last_error or "").startswith(f"{code}: as planned")
    assert row.channel.last_error == row.last_error
    assert row.channel.last_error_at == clock.now()
    assert (owner.lost, owner.locked) == (["t:1"], ["t:1"])


def test_a_success_clears_the_channels_error(channel: Channel, server: SandboxServer, owner: Owner) -> None:
    refuse(server, 230002)
    send(channel)
    deliveries.sweep()
    send(channel, "t:2")
    deliveries.sweep()
    channel.refresh_from_db()
    assert (channel.last_error, channel.last_error_at) == ("", None)


def test_the_owner_learns_in_the_same_transaction(
    channel: Channel, server: SandboxServer, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(server, 230002)
    row = send(channel)

    def burst(*, delivery: Delivery) -> None:
        raise RuntimeError("the owner is broken")

    monkeypatch.setattr(owner, "undelivered", burst)
    with pytest.raises(RuntimeError):
        dispatch.bring([row.pk])
    assert again(row).status == "sending"  # and due again when the lease ends


def test_a_refusal_after_doubt_stays_unknown(
    channel: Channel, server: SandboxServer, owner: Owner, time: Clock
) -> None:
    fail(server, apply_then_drop=True)
    refuse(server, 230001)
    row = send(channel)
    deliveries.sweep()
    time.advance(seconds=2)
    deliveries.sweep()
    assert (again(row).status, again(row).due_at, owner.lost) == ("unknown", None, [])


@pytest.mark.parametrize("code", [230025, 230028])
def test_refused_content_goes_without_the_arguments_and_without_approve(
    channel: Channel, server: SandboxServer, code: int, owner: Owner
) -> None:
    refuse(server, code)
    row = send(channel, body="call +82 10 1234 5678")
    deliveries.sweep()
    shown = messages(server)
    assert len(shown) == 1
    assert "1234 5678" not in texts(shown[0])
    assert "open the full request" in texts(shown[0])
    assert [button["text"] for button in shown[0]["view"]["buttons"]] == ["Reject", "Open"]
    assert (again(row).status, again(row).handle["body_hidden"]) == ("sent", True)


def test_an_update_of_such_a_card_goes_without_its_body_at_once(
    channel: Channel, server: SandboxServer, owner: Owner
) -> None:
    refuse(server, 230028)
    row = send(channel, body="call +82 10 1234 5678")
    deliveries.sweep()
    newer = card("call +82 10 1234 5678", subtitle="1 of 2")
    deliveries.replace(topic="t:1", render=lambda channel: newer)
    deliveries.sweep()
    assert len(server.look("calls", endpoint="update")["calls"]) == 1
    assert "1 of 2" in texts(messages(server)[0])
    assert "1234 5678" not in texts(messages(server)[0])
    assert again(row).handle["body_hidden"] is True


def test_what_ended_during_a_failed_send_is_not_sent_any_more(
    channel: Channel, server: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(server, 230020)
    row = send(channel)
    act = dispatch._act

    def meanwhile(*args: Any) -> Any:
        replace(ended="Cancelled")
        return act(*args)

    monkeypatch.setattr(dispatch, "_act", meanwhile)
    deliveries.deliver([row.pk])
    assert (again(row).status, messages(server)) == ("superseded", [])


def test_a_failed_update_leaves_the_delivery_sent_and_says_so(
    channel: Channel, server: SandboxServer, owner: Owner
) -> None:
    row = send(channel)
    deliveries.sweep()
    server.control("messages/recall", message_id=again(row).message_id)
    replace()
    deliveries.sweep()
    row = again(row)
    assert (row.status, row.due_at, owner.lost) == ("sent", None, [])
    assert (row.last_error or "").startswith("230011")


def test_a_card_under_a_tap_is_updated_when_the_tap_is_over(
    channel: Channel, server: SandboxServer, time: Clock
) -> None:
    row = send(channel)
    deliveries.sweep()
    message = server.sandbox.messages.get(again(row).message_id)
    message.clicks_unanswered = 1
    replace()
    deliveries.sweep()
    assert again(row).due_at == time.moment + timedelta(seconds=1)
    message.clicks_unanswered = 0
    time.advance(seconds=1)
    deliveries.sweep()
    assert "Approved by Bob" in texts(messages(server)[0])


def test_a_switched_off_channel_fails_in_the_open(
    channel: Channel, server: SandboxServer, owner: Owner
) -> None:
    row = send(channel)
    Channel.objects.filter(pk=channel.pk).update(enabled=False)
    deliveries.sweep()
    assert (again(row).status, owner.lost, messages(server)) == ("failed", ["t:1"], [])
    assert "switched off" in (again(row).last_error or "")


def test_a_channel_without_adapter_fails_in_the_open(channel: Channel, owner: Owner) -> None:
    Channel.objects.filter(pk=channel.pk).update(type="pigeon")
    channel.refresh_from_db()
    row = send(channel)
    deliveries.sweep()
    assert (again(row).status, owner.lost) == ("failed", ["t:1"])
    assert "pigeon" in (again(row).last_error or "")


def test_an_admin_may_retry_what_failed(channel: Channel, server: SandboxServer, owner: Owner) -> None:
    refuse(server, 230002)
    row = send(channel)
    deliveries.sweep()
    deliveries.retry(row, audit.SHELL)
    deliveries.sweep()
    assert again(row).status == "sent"
    assert AuditEvent.objects.filter(action="delivery.retried", object_id=str(row.pk)).exists()
    with pytest.raises(Problem, match="409 not_failed"):
        deliveries.retry(row, audit.SHELL)
