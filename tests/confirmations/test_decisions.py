"""Deciding in the inbox: who may, what counts, and that a decision stands."""

from datetime import timedelta

import pytest

from hooks_app import confirmations
from hooks_app.confirmations import Initiator
from hooks_app.models import ConfirmationRequest, Decision
from portal.lib import ids
from portal.lib.problems import Problem
from portal.models import AuditEvent
from tests.confirmations.conftest import refused
from tests.confirmations.world import World, state
from tests.conftest import Clock

BOB = Initiator(id="u1", email="bob@acme.test")


def test_an_approval_ends_the_request(world: World, time: Clock) -> None:
    row = world.ask()
    time.advance(seconds=7)
    row = world.approve(row, world.bob, reason="  checked  ")
    assert (row.status, row.ended_at, row.reason) == ("approved", time.moment, None)
    assert row.start_by == time.moment + timedelta(seconds=300)
    shown = confirmations.represent(row)
    stamp = time.moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    assert shown["decisions"] == [
        {"decision": "approve", "user": "bob", "identity": None, "reason": "checked", "at": stamp}
    ]
    assert row.stages.get().status == "passed"


def test_a_rejection_ends_the_request_with_its_reason(world: World) -> None:
    row = world.reject(world.ask(), world.bob, reason="wrong payee")
    assert (row.status, row.reason, row.start_by) == ("rejected", "wrong payee", None)
    assert row.stages.get().status == "closed"


def test_the_same_decision_again_changes_nothing(world: World, time: Clock) -> None:
    row = world.approve(world.ask(), world.bob)
    time.advance(seconds=1)
    again = world.approve(row, world.bob)
    assert (again.status, again.ended_at, again.votes) == ("approved", row.ended_at, 1)
    assert Decision.objects.count() == 1


def test_the_same_decision_again_changes_nothing_while_it_waits(world: World) -> None:
    world.set_policy(quorum=2)
    row = world.approve(world.ask(), world.bob)
    again = world.approve(row, world.bob)
    assert (again.status, again.votes) == ("pending", 1)
    with refused(409, "already_voted"):
        world.reject(row, world.bob)
    assert Decision.objects.count() == 1


def test_somebody_elses_decision_comes_too_late(world: World) -> None:
    row = world.approve(world.ask(), world.bob)
    with refused(409, "already_voted"):
        world.reject(row, world.bob)
    for decision in ("approve", "reject"):
        with refused(409, "already_decided"):
            world.decide(row, world.carol, decision)
    assert state(row) == "approved"
    assert Decision.objects.count() == 1


def test_after_the_deadline_nobody_decides(world: World, time: Clock) -> None:
    row = world.ask()
    time.advance(seconds=120)
    for decision in ("approve", "reject"):
        with refused(409, "expired"):
            world.decide(row, world.bob, decision)
    assert ConfirmationRequest.objects.get().votes == 0
    assert Decision.objects.count() == 0


def test_after_the_deadline_no_vote_is_counted_either(world: World, time: Clock) -> None:
    world.set_policy(quorum=2)
    row = world.approve(world.ask(), world.bob)
    time.advance(seconds=120)
    with refused(409, "expired"):
        world.approve(row, world.carol)
    assert (ConfirmationRequest.objects.get().votes, Decision.objects.count()) == (1, 1)


def test_until_the_deadline_somebody_does(world: World, time: Clock) -> None:
    row = world.ask()
    time.advance(seconds=119)
    assert world.approve(row, world.bob).status == "approved"


def test_a_quorum_counts_different_people(world: World) -> None:
    world.set_policy(quorum=3)
    row = world.approve(world.ask(), world.bob)
    row = world.approve(row, world.carol)
    assert (row.status, row.votes) == ("pending", 2)
    row = world.approve(row, world.alice)
    assert (row.status, row.votes) == ("approved", 3)
    assert [d["user"] for d in confirmations.represent(row)["decisions"]] == ["bob", "carol", "alice"]


def test_one_rejection_stops_a_quorum(world: World) -> None:
    world.set_policy(quorum=2)
    row = world.approve(world.ask(), world.bob)
    assert world.reject(row, world.carol).status == "rejected"


def test_a_reject_quorum_counts_too(world: World) -> None:
    world.set_policy(quorum=2, reject_quorum=2)
    row = world.reject(world.ask(), world.bob, reason="first")
    row = world.approve(row, world.alice)
    assert row.status == "pending"
    row = world.reject(row, world.carol, reason="second")
    assert (row.status, row.reason) == ("rejected", "second")


def test_a_reason_may_be_required_to_reject(world: World) -> None:
    world.set_policy(require_reject_reason=True)
    row = world.ask()
    for reason in (None, "", "  \n"):
        with refused(400, "reason_required"):
            world.reject(row, world.bob, reason=reason)
    assert ConfirmationRequest.objects.get().votes == 0
    assert world.reject(row, world.bob, reason="no").status == "rejected"


def test_approving_needs_no_reason(world: World) -> None:
    world.set_policy(require_reject_reason=True)
    assert world.approve(world.ask(), world.bob).status == "approved"


@pytest.mark.parametrize("reason", ["x" * 2001, "a\x00b", "\ud800", 5])
def test_a_reason_is_bounded_text(world: World, reason: str) -> None:
    row = world.ask()
    with pytest.raises(Problem) as caught:
        world.reject(row, world.bob, reason=reason)
    assert [(e.path, caught.value.code) for e in caught.value.errors] == [("reason", "invalid")]
    assert state(row) == "pending"


def test_nothing_but_approve_and_reject_is_a_decision(world: World) -> None:
    with refused(400, "invalid"):
        world.decide(world.ask(), world.bob, "Approve")


def test_an_unknown_request_is_not_found(world: World) -> None:
    with refused(404, "not_found"):
        confirmations.decide(
            request_id=ids.new(), voter=confirmations.Voter(user=world.bob), decision="approve"
        )


def test_nobody_approves_what_they_started(world: World) -> None:
    row = world.ask(initiator=BOB)
    with refused(403, "self_approval"):
        world.approve(row, world.bob)
    assert ConfirmationRequest.objects.get().votes == 0
    assert world.reject(row, world.bob).status == "rejected"


def test_who_is_bound_to_the_runtimes_id_meanwhile_is_the_initiator_too(world: World) -> None:
    from channels_app import identities

    row = world.ask()
    identities.bind(organization=world.organization, user=world.bob, channel=None, external_id="u42")
    with refused(403, "self_approval"):
        world.approve(row, world.bob)
    assert world.approve(row, world.carol).status == "approved"


def test_self_approval_may_be_allowed(world: World) -> None:
    world.set_policy(forbid_self_approval=False)
    assert world.approve(world.ask(initiator=BOB), world.bob).status == "approved"


def test_a_policy_is_frozen_when_the_request_is_made(world: World) -> None:
    row = world.ask()
    world.set_policy(quorum=2, scope="org_members", forbid_self_approval=False, start_by_seconds=1)
    with refused(403, "not_an_approver"):
        world.approve(row, world.dave)
    row = world.approve(row, world.bob)
    assert row.status == "approved"
    assert row.start_by is not None
    assert row.ended_at is not None
    assert row.start_by - row.ended_at == timedelta(seconds=300)


def test_decisions_are_audited_by_person(world: World) -> None:
    world.set_policy(quorum=2)
    row = world.approve(world.ask(), world.bob)
    world.reject(row, world.carol, reason="no")
    events = AuditEvent.objects.exclude(action="agent.published").order_by("sequence")
    told = [(e.action, e.actor_kind, e.actor_name) for e in events if e.object_id == str(row.pk)]
    assert told == [
        ("confirmation.created", "runtime", "worker-1"),
        ("decision.recorded", "user", "bob"),
        ("decision.recorded", "user", "carol"),
        ("confirmation.rejected", "user", "carol"),
    ]
    last = AuditEvent.objects.get(action="confirmation.rejected")
    assert last.data == {"votes": 1, "quorum": 1, "reason": "no"}
