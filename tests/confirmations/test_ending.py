"""Requests that end without a decision: the deadline, cancelling, and cards that reach nobody."""

import pytest

from channels_app.models import Delivery
from hooks_app import confirmations, tasks
from hooks_app.confirmations.taps import ApprovalsTopic
from hooks_app.models import ConfirmationRequest
from portal.models import AuditEvent
from tests.confirmations.conftest import refused
from tests.confirmations.world import World, state
from tests.conftest import Clock


def test_the_deadline_reads_as_expired_before_anything_has_swept(world: World, time: Clock) -> None:
    row = world.ask()
    time.advance(seconds=119)
    assert confirmations.status_now(row) == "pending"
    time.advance(seconds=1)
    shown = confirmations.represent(row)
    assert (shown["status"], shown["ended_at"]) == ("expired", shown["expires_at"])
    assert state(row) == "pending"


def test_settling_makes_the_expiry_real(world: World, time: Clock) -> None:
    row = world.ask()
    assert confirmations.settle(row) is row
    time.advance(seconds=120)
    assert confirmations.settle(row).status == "expired"
    assert state(row) == "expired"


def test_the_sweep_expires_what_is_late_and_nothing_else(world: World, time: Clock) -> None:
    late, waiting = world.ask(timeout_seconds=10), world.ask()
    approved = world.approve(world.ask(timeout_seconds=10), world.bob)
    time.advance(seconds=10)
    assert confirmations.sweep() == 1
    assert [state(row) for row in (late, waiting, approved)] == ["expired", "pending", "approved"]
    assert confirmations.sweep() == 0
    event = AuditEvent.objects.get(action="confirmation.expired")
    assert (event.actor_kind, event.object_id) == ("system", str(late.pk))
    assert ConfirmationRequest.objects.get(pk=late.pk).ended_at == time.moment


def test_a_row_that_fails_does_not_hold_up_the_others(
    world: World, time: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hooks_app.confirmations import approval_cards

    first, second = world.ask(timeout_seconds=5), world.ask(timeout_seconds=6)
    build = approval_cards.build

    def broken(request: ConfirmationRequest, *, language: str):
        if request.pk == first.pk:
            raise RuntimeError("poison")
        return build(request, language=language)

    monkeypatch.setattr(approval_cards, "build", broken)
    time.advance(seconds=6)
    assert confirmations.sweep() == 1
    assert [state(row) for row in (first, second)] == ["pending", "expired"]


def test_the_task_sweeps(world: World, time: Clock) -> None:
    row = world.ask()
    time.advance(seconds=120)
    tasks.sweep()
    assert state(row) == "expired"


def test_the_runtime_cancels(world: World, time: Clock) -> None:
    row = confirmations.cancel(request=world.ask())
    assert (row.status, row.ended_at) == ("cancelled", time.moment)
    assert confirmations.cancel(request=row).status == "cancelled"
    with refused(409, "already_decided"):
        world.approve(row, world.bob)
    event = AuditEvent.objects.get(action="confirmation.cancelled")
    assert (event.actor_kind, event.actor_id) == ("runtime", "worker-1")


def test_what_has_ended_is_not_cancelled(world: World, time: Clock) -> None:
    approved, late = world.approve(world.ask(), world.bob), world.ask()
    time.advance(seconds=120)
    for row in (approved, late):
        with refused(409, "already_decided"):
            confirmations.cancel(request=row)
    assert [state(row) for row in (approved, late)] == ["approved", "pending"]


def fail(row: ConfirmationRequest, recipient: str | None = None) -> None:
    """The deliveries of a request fail for good, and its owner is told."""
    deliveries = Delivery.objects.filter(topic=f"confirmation:{row.pk}")
    if recipient:
        deliveries = deliveries.filter(recipient=recipient)
    for delivery in deliveries:
        delivery.status = "failed"
        delivery.save()
        ApprovalsTopic().undelivered(delivery=delivery)


def test_channel_only_is_undeliverable_when_the_last_card_has_failed(world: World) -> None:
    from tests import make

    second = make.channel(world.organization, "finance", config={"chat_id": "oc_2"})
    make.approval_channel(world.agent, second)
    world.set_agent(confirmation_mode="channel_only")
    row = world.ask()
    fail(row, "oc_1")
    assert state(row) == "pending"
    fail(row, "oc_2")
    assert state(row) == "undeliverable"
    shown = confirmations.represent(ConfirmationRequest.objects.get(pk=row.pk))
    assert shown["reason"] == "No card could be delivered, and only a tap on a card may decide."


@pytest.mark.parametrize("status", ["queued", "sending", "sent", "unknown"])
def test_a_card_that_may_have_arrived_keeps_the_request_alive(world: World, status: str) -> None:
    world.set_agent(confirmation_mode="channel_only")
    row = world.ask()
    Delivery.objects.update(status=status, handle={"message_id": "om_1"})
    confirmations.mark_undeliverable(request_id=row.pk)
    assert confirmations.sweep() == 0
    assert state(row) == "pending"


def test_in_auto_mode_the_inbox_remains(world: World) -> None:
    row = world.ask()
    fail(row)
    assert confirmations.sweep() == 0
    assert world.approve(row, world.bob).status == "approved"


def test_the_sweep_finds_what_nobody_was_told(world: World) -> None:
    world.set_agent(confirmation_mode="channel_only")
    row = world.ask()
    Delivery.objects.update(status="failed")
    assert confirmations.sweep() == 1
    assert state(row) == "undeliverable"


def test_an_ended_request_stays_as_it_is(world: World, time: Clock) -> None:
    world.set_agent(confirmation_mode="channel_only")
    world.bind(world.bob, "ou_bob")
    row = world.ask()
    world.tap(row, "ou_bob", "approve")
    fail(row)
    time.advance(seconds=600)
    confirmations.sweep()
    assert state(row) == "approved"
