"""Consuming an approval and reporting what came of it."""

import uuid
from datetime import timedelta

import pytest

from hooks_app import confirmations
from hooks_app.governance import halting
from hooks_app.models import Agent, ConfirmationRequest
from hooks_app.registry import heads
from portal import audit
from portal.lib.problems import Problem
from portal.models import AuditEvent, Organization
from tests.confirmations.conftest import refused
from tests.confirmations.world import World
from tests.conftest import Clock

ATTEMPT = uuid.uuid4()


def consume(row: ConfirmationRequest, attempt: uuid.UUID = ATTEMPT, digest: str = "") -> ConfirmationRequest:
    """The runtime uses the approval."""
    return confirmations.consume(request=row, args_digest=digest or row.args_digest, attempt=attempt)


def outcome(row: ConfirmationRequest, status: str, detail: str | None = None) -> ConfirmationRequest:
    """The runtime reports."""
    return confirmations.report_outcome(request=row, status=status, detail=detail)


@pytest.fixture
def approved(world: World, time: Clock) -> ConfirmationRequest:
    """An approved payment."""
    return world.approve(world.ask(), world.bob)


def test_an_approval_is_used_once(approved: ConfirmationRequest, time: Clock) -> None:
    row = consume(approved)
    assert (row.consumed_at, row.attempt) == (time.moment, ATTEMPT)
    with refused(409, "already_consumed"):
        consume(approved, uuid.uuid4())
    assert ConfirmationRequest.objects.get().attempt == ATTEMPT


def test_the_same_attempt_is_answered_alike_until_an_outcome_is_reported(
    approved: ConfirmationRequest, time: Clock
) -> None:
    first = consume(approved)
    # Past start_by as well: it was used in time.
    time.advance(seconds=400)
    assert consume(approved).consumed_at == first.consumed_at
    outcome(approved, "succeeded")
    with refused(409, "already_consumed"):
        consume(approved)
    assert AuditEvent.objects.filter(action="confirmation.consumed").count() == 1


def test_only_an_approval_is_used(world: World, time: Clock) -> None:
    pending, late = world.ask(), world.ask(timeout_seconds=5)
    rejected, cancelled = world.reject(world.ask(), world.bob), world.ask()
    confirmations.cancel(request=cancelled)
    time.advance(seconds=5)
    for row in (pending, late, rejected, cancelled):
        with refused(409, "not_approved"):
            consume(row)
    assert not ConfirmationRequest.objects.filter(consumed_at__isnull=False).exists()


def test_other_arguments_do_not_run(approved: ConfirmationRequest) -> None:
    for digest in ("sha256:" + "0" * 64, approved.args_digest[:-1], approved.args_digest.upper(), "é"):
        with refused(409, "args_mismatch"):
            consume(approved, digest=digest)
    consume(approved)
    with refused(409, "args_mismatch"):
        consume(approved, digest="sha256:" + "0" * 64)


def test_an_approval_lapses(approved: ConfirmationRequest, time: Clock) -> None:
    time.advance(seconds=300)
    with refused(409, "approval_lapsed"):
        consume(approved)


def test_an_approval_holds_until_then(approved: ConfirmationRequest, time: Clock) -> None:
    time.advance(seconds=299)
    assert consume(approved).consumed_at == time.moment


def test_switches_are_judged_now(world: World, approved: ConfirmationRequest) -> None:
    Agent.objects.update(enabled=False)
    with refused(409, "agent_disabled"):
        consume(approved)
    Agent.objects.update(enabled=True)
    halting.halt(organization=world.organization, reason="drill", actor=audit.SHELL)
    with refused(409, "halted"):
        consume(approved)
    halting.resume(organization=world.organization, actor=audit.SHELL)
    halting.halt(organization=world.organization, agent=world.agent, reason="drill", actor=audit.SHELL)
    with refused(409, "halted"):
        consume(approved)
    halting.resume(organization=world.organization, agent=world.agent, actor=audit.SHELL)
    Organization.objects.update(read_only=True)
    with refused(409, "read_only"):
        consume(approved)
    Organization.objects.update(read_only=False)
    assert consume(approved).attempt == ATTEMPT


def test_a_switch_stops_a_repeated_attempt_too(world: World, approved: ConfirmationRequest) -> None:
    consume(approved)
    halting.halt(organization=world.organization, reason="drill", actor=audit.SHELL)
    with refused(409, "halted"):
        consume(approved)


def test_a_request_waits_on_while_the_agent_is_halted(world: World) -> None:
    row = world.ask()
    halting.halt(organization=world.organization, reason="drill", actor=audit.SHELL)
    row = world.approve(row, world.bob)
    assert row.status == "approved"
    with refused(409, "halted"):
        consume(row)


def test_read_only_stops_what_is_known_to_write_now(world: World) -> None:
    row = world.approve(world.ask(tool_name="oa__purchase_read"), world.bob)
    Organization.objects.update(read_only=True)
    world.organization.connectors.get().actions.filter(name="purchase_read").update(writes=True)
    heads.inputs_changed(world.organization)
    with refused(409, "read_only"):
        consume(row)
    world.organization.connectors.get().actions.filter(name="purchase_read").update(writes=False)
    heads.inputs_changed(world.organization)
    assert consume(row).attempt == ATTEMPT


def test_an_outcome_is_reported_once(approved: ConfirmationRequest, time: Clock) -> None:
    consume(approved)
    row = outcome(approved, "succeeded", "paid")
    assert (row.outcome, row.outcome_detail, row.outcome_at) == ("succeeded", "paid", time.moment)
    shown = confirmations.represent(row)
    assert shown["outcome"] == "succeeded"
    assert shown["outcome_detail"] == "paid"
    assert shown["outcome_at"] == time.moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    time.advance(seconds=1)
    assert outcome(approved, "succeeded", "again").outcome_detail == "paid"
    for other in ("failed", "unknown"):
        with refused(409, "outcome_conflict"):
            outcome(approved, other)
    assert AuditEvent.objects.filter(action="confirmation.outcome").count() == 1


@pytest.mark.parametrize("final", ["succeeded", "failed"])
def test_an_unknown_outcome_may_become_known(approved: ConfirmationRequest, final: str) -> None:
    consume(approved)
    assert outcome(approved, "unknown").outcome == "unknown"
    assert outcome(approved, "unknown").outcome == "unknown"
    assert outcome(approved, final).outcome == final
    with refused(409, "outcome_conflict"):
        outcome(approved, "unknown")


def test_nothing_comes_of_what_was_not_consumed(world: World, approved: ConfirmationRequest) -> None:
    for row in (approved, world.ask()):
        with refused(409, "not_consumed"):
            outcome(row, "succeeded")


@pytest.mark.parametrize(
    ("status", "detail", "path"),
    [("done", None, "status"), ("failed", "x" * 2001, "detail"), ("failed", "a\x00", "detail")],
)
def test_an_outcome_is_bounded(approved: ConfirmationRequest, status: str, detail: str, path: str) -> None:
    consume(approved)
    with pytest.raises(Problem) as caught:
        outcome(approved, status, detail)
    assert [error.path for error in caught.value.errors] == [path]


def test_start_by_follows_the_policy(world: World) -> None:
    world.set_policy(start_by_seconds=5)
    row = world.approve(world.ask(), world.bob)
    assert row.start_by is not None
    assert row.ended_at is not None
    assert row.start_by - row.ended_at == timedelta(seconds=5)
