"""Whatever arrives at once, one transition wins, and what lost leaves no trace."""

import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from channels_app.models import Delivery
from hooks_app import confirmations
from hooks_app.models import ConfirmationRequest, Decision
from portal.lib import clock
from portal.lib.problems import Problem
from portal.models import AuditEvent, User
from tests import make
from tests.confirmations import world as worlds
from tests.confirmations.world import World
from tests.races.crowd import ROUNDS, at_once, codes

pytestmark = pytest.mark.django_db(transaction=True)
TERMINAL = [f"confirmation.{status}" for status in ConfirmationRequest.Status.values if status != "pending"]


@pytest.fixture
def world(transactional_db: None) -> World:
    """A world whose agent may have as many requests as the rounds need."""
    built = worlds.build()
    built.set_agent(max_pending=10000)
    return built


def rounds() -> Iterator[int]:
    """The numbers of the rounds."""
    return iter(range(ROUNDS))


def ended(row: ConfirmationRequest) -> str:
    """The status after everything; there was one transition, by the audit trail, and it is this one."""
    status = ConfirmationRequest.objects.get(pk=row.pk).status
    events = AuditEvent.objects.filter(object_id=str(row.pk), action__in=TERMINAL)
    assert [event.action for event in events] == ([] if status == "pending" else [f"confirmation.{status}"])
    return status


def crowd(world: World, size: int) -> list[User]:
    """So many more approvers."""
    return [make.user(f"approver{index}", world.organization) for index in range(size)]


def test_mixed_decisions_make_one_transition(world: World) -> None:
    people = crowd(world, 8)
    for _ in rounds():
        row = world.ask()
        results = at_once(
            *(
                partial(world.decide, row, user, "approve" if index % 2 else "reject")
                for index, user in enumerate(people)
            )
        )
        decision = Decision.objects.get(request=row)
        assert ended(row) == ("approved" if decision.decision == "approve" else "rejected")
        assert codes(results) == ["already_decided"] * 7
        assert ConfirmationRequest.objects.get(pk=row.pk).votes == 1


def test_two_last_votes_at_once_reach_the_quorum(world: World) -> None:
    world.set_policy(quorum=2)
    for _ in rounds():
        row = world.ask()
        results = at_once(partial(world.approve, row, world.bob), partial(world.approve, row, world.carol))
        assert codes(results) == []
        assert ended(row) == "approved"
        assert Decision.objects.filter(request=row).count() == 2


def test_one_vote_too_many_is_not_counted(world: World) -> None:
    world.set_policy(quorum=3)
    people = crowd(world, 6)
    for _ in rounds():
        row = world.ask()
        results = at_once(*(partial(world.approve, row, user) for user in people))
        assert ended(row) == "approved"
        assert codes(results) == ["already_decided"] * 3
        assert Decision.objects.filter(request=row).count() == 3


def test_one_person_at_several_places_has_one_vote(world: World) -> None:
    world.set_policy(quorum=2)
    world.bind(world.bob, "ou_bob")
    for _ in rounds():
        row = world.ask()
        results = at_once(
            partial(world.approve, row, world.bob),
            partial(world.tap, row, "ou_bob", "approve"),
            partial(world.approve, row, world.bob),
        )
        assert codes(results) == []
        assert Decision.objects.filter(request=row).count() == 1
        assert (ended(row), ConfirmationRequest.objects.get(pk=row.pk).votes) == ("pending", 1)


def test_one_person_cannot_say_both(world: World) -> None:
    for _ in rounds():
        row = world.ask()
        results = at_once(partial(world.approve, row, world.bob), partial(world.reject, row, world.bob))
        assert codes(results) == ["already_voted"]
        assert ended(row) == ("approved" if isinstance(results[1], Problem) else "rejected")


def test_deciding_against_cancelling(world: World) -> None:
    for _ in rounds():
        row = world.ask()
        results = at_once(partial(world.approve, row, world.bob), partial(confirmations.cancel, request=row))
        assert codes(results) == ["already_decided"]
        status = ended(row)
        assert status == ("cancelled" if isinstance(results[0], Problem) else "approved")
        assert Decision.objects.filter(request=row).count() == (status == "approved")


class SplitClock:
    """A clock that shows the threads named ``early`` one moment, and everybody else a later one."""

    def __init__(self) -> None:
        self.early: set[int] = set()
        self.moment = clock.now()

    def __call__(self) -> datetime:
        early = threading.get_ident() in self.early
        return self.moment - timedelta(milliseconds=1) if early else self.moment


def test_a_vote_in_the_last_moment_against_the_deadline(world: World) -> None:
    """The sweep and a reader who is there at the deadline agree with what became of the vote."""
    for _ in rounds():
        row = world.ask()
        hands = SplitClock()
        hands.moment = row.expires_at

        def vote(row: ConfirmationRequest = row, hands: SplitClock = hands) -> Any:
            hands.early.add(threading.get_ident())
            return world.approve(row, world.bob)

        with clock.set_to(hands):
            results = at_once(vote, confirmations.sweep, partial(confirmations.settle, row))
            status = ended(row)
        assert results[2].status == status
        assert codes(results) == ([] if status == "approved" else ["expired"])
        assert Decision.objects.filter(request=row).count() == (status == "approved")


def test_a_tap_against_the_last_failed_delivery(world: World) -> None:
    world.bind(world.bob, "ou_bob")
    world.set_agent(confirmation_mode="channel_only")
    for _ in rounds():
        row = world.ask()
        Delivery.objects.filter(topic=f"confirmation:{row.pk}").update(status="failed")
        reply, undeliverable = at_once(
            partial(world.tap, row, "ou_bob", "approve"),
            partial(confirmations.mark_undeliverable, request_id=row.pk),
        )
        assert ended(row) == ("undeliverable" if undeliverable else "approved")
        assert reply.ok is not undeliverable


def test_one_attempt_consumes(world: World) -> None:
    for _ in rounds():
        row = world.approve(world.ask(), world.bob)
        attempts = [uuid.uuid4() for _ in range(4)]
        results = at_once(*(consume(row, attempt) for attempt in attempts))
        assert codes(results) == ["already_consumed"] * 3
        winner = next(i for i, result in enumerate(results) if not isinstance(result, Problem))
        assert ConfirmationRequest.objects.get(pk=row.pk).attempt == attempts[winner]


def test_a_repeated_attempt_is_one_use(world: World) -> None:
    for _ in rounds():
        row = world.approve(world.ask(), world.bob)
        attempt = uuid.uuid4()
        results = at_once(*(consume(row, attempt) for _ in range(4)))
        assert codes(results) == []
        assert len({result.consumed_at for result in results}) == 1
        used = AuditEvent.objects.filter(object_id=str(row.pk), action="confirmation.consumed")
        assert used.count() == 1


def test_one_outcome_stands(world: World) -> None:
    for _ in rounds():
        row = world.approve(world.ask(), world.bob)
        consume(row, uuid.uuid4())()
        results = at_once(
            *(
                partial(confirmations.report_outcome, request=row, status=status)
                for status in ("succeeded", "failed")
            )
        )
        assert codes(results) == ["outcome_conflict"]
        stands = "failed" if isinstance(results[0], Problem) else "succeeded"
        assert ConfirmationRequest.objects.get(pk=row.pk).outcome == stands


def consume(row: ConfirmationRequest, attempt: uuid.UUID) -> Callable[[], ConfirmationRequest]:
    """The job of a runtime that is about to run the tool."""
    return partial(confirmations.consume, request=row, args_digest=row.args_digest, attempt=attempt)


def test_one_tool_call_asked_by_many_is_one_request(world: World) -> None:
    for _ in rounds():
        job = partial(confirmations.create, agent=world.agent, runtime="worker-1", request=world.proposal())
        results = at_once(*[job] * 16)
        assert codes(results) == []
        assert sorted(is_new for _, is_new in results) == [False] * 15 + [True]
        (request_id,) = {row.pk for row, _ in results}
        assert Delivery.objects.filter(topic=f"confirmation:{request_id}").count() == 1


def test_the_limit_holds_against_a_burst(world: World) -> None:
    world.set_agent(max_pending=3)
    for _ in rounds():
        jobs = [
            partial(confirmations.create, agent=world.agent, runtime="", request=world.proposal())
            for _ in range(8)
        ]
        results = at_once(*jobs)
        assert codes(results) == ["too_many_pending"] * 5
        for made in results:
            if not isinstance(made, Problem):
                confirmations.cancel(request=made[0])
