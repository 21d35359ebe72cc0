"""What an organization no longer wants to keep is deleted, in batches, and that is audited."""

import uuid
from datetime import timedelta
from typing import Any

import pytest

from channels_app.models import Delivery
from hooks_app import confirmations, retention, tasks
from hooks_app.models import ConfirmationRequest, ConnectorCallLog, Decision, Stage
from portal.lib import clock
from portal.models import AuditEvent, Organization
from tests.confirmations.world import World
from tests.conftest import Clock


def log_call(world: World, started_at: Any) -> ConnectorCallLog:
    """One entry of the call log."""
    return ConnectorCallLog.objects.create(
        id=uuid.uuid4(),
        organization=world.organization,
        agent=world.agent,
        agent_slug=world.agent.slug,
        tool_name="oa__purchase_pay",
        status="succeeded",
        started_at=started_at,
        received_at=started_at,
    )


def test_nothing_is_deleted_unless_the_organization_says_so(world: World, time: Clock) -> None:
    world.approve(world.ask(), world.bob)
    log_call(world, clock.now())
    time.advance(days=4000)
    assert retention.purge() == 0
    assert (ConfirmationRequest.objects.count(), ConnectorCallLog.objects.count()) == (1, 1)


def test_what_is_old_goes_and_the_rest_stays(world: World, time: Clock) -> None:
    Organization.objects.update(retention_days=30)
    world.approve(world.ask(), world.bob)
    log_call(world, clock.now())
    waiting = world.ask()
    time.advance(days=29)
    recent = world.reject(world.ask(), world.bob)
    entry = log_call(world, clock.now())
    assert retention.purge() == 0
    time.advance(days=2)
    tasks.purge()
    assert set(ConfirmationRequest.objects.all()) == {waiting, recent}
    assert Decision.objects.get().request == recent
    assert {stage.request_id for stage in Stage.objects.all()} == {waiting.pk, recent.pk}
    assert ConnectorCallLog.objects.get() == entry
    event = AuditEvent.objects.get(action="retention.purged")
    assert (event.organization, event.data["requests"], event.data["calls"]) == (world.organization, 1, 1)
    assert event.data["before"] == clock.rfc3339(time.moment - timedelta(days=30))


def test_a_parent_goes_after_its_children(world: World, time: Clock) -> None:
    Organization.objects.update(retention_days=1)
    parent = world.ask()
    child = world.ask(parent=parent.pk)
    world.reject(parent, world.bob)
    time.advance(hours=25)
    # The child was only now swept, so it is not old yet, and its parent stays with it.
    confirmations.sweep()
    assert retention.purge() == 0
    time.advance(hours=25)
    assert retention.purge() == 2
    assert not ConfirmationRequest.objects.filter(pk__in=[parent.pk, child.pk]).exists()


def test_an_approval_that_can_still_be_used_stays(world: World, time: Clock) -> None:
    Organization.objects.update(retention_days=1)
    world.set_policy(start_by_seconds=2 * 86400)
    row = world.approve(world.ask(), world.bob)
    time.advance(hours=25)
    assert retention.purge() == 0
    confirmations.consume(request=row, args_digest=row.args_digest, attempt=uuid.uuid4())
    assert retention.purge() == 1


def test_batches_go_on_until_everything_is_gone(
    world: World, time: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    Organization.objects.update(retention_days=1)
    for _ in range(5):
        world.reject(world.ask(), world.bob)
        log_call(world, clock.now())
    time.advance(days=2)
    assert retention.purge() == 10
    assert AuditEvent.objects.filter(action="retention.purged").count() == 3


def test_the_cards_go_with_their_request(world: World, time: Clock) -> None:
    Organization.objects.update(retention_days=1)
    gone, kept = world.ask(), world.ask()
    world.reject(gone, world.bob)
    assert Delivery.objects.count() == 2
    time.advance(hours=25)
    assert retention.purge() == 1
    assert [row.topic for row in Delivery.objects.all()] == [f"confirmation:{kept.pk}"]
