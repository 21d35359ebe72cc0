"""A decision against everything else that may end a request or stop its agent at the same moment."""

import threading
import uuid
from datetime import datetime, timedelta
from functools import partial

import pytest

from channels_app.models import Delivery
from hooks_app import confirmations
from hooks_app.governance import halting
from hooks_app.models import ConfirmationRequest
from portal import audit
from portal.lib import clock
from portal.lib.problems import Problem
from tests.confirmations.world import World
from tests.races import doors
from tests.races.crowd import at_once, codes
from tests.races.doors import Answer, told
from tests.races.tally import Tally

pytestmark = pytest.mark.django_db(transaction=True)


def test_deciding_against_cancelling(world: World) -> None:
    """One approves over REST, one taps Reject, the runtime gives the call up."""
    world.bind(world.carol, "ou_carol")
    bob, runtime = doors.person(world.bob), doors.runtime(world)
    tally = Tally("two decisions against cancelling")
    for _ in tally.rounds():
        row = world.ask()
        results = at_once(
            partial(bob.respond, row, "approve"),
            doors.tap(doors.sent(row), "ou_carol", "reject"),
            partial(runtime.post, f"/confirmations/{row.pk}/cancel"),
        )
        accepted = [told(result) for result in results if result.accepted]
        status = tally.end(row, told=map(told, results), votes=accepted != ["cancelled"])
        tally.fault("winners", accepted != [status])
    tally.record()


class SplitClock:
    """A clock that shows the threads named ``early`` one moment, and everybody else a later one."""

    def __init__(self, moment: datetime) -> None:
        self.early: set[int] = set()
        self.moment = moment

    def __call__(self) -> datetime:
        early = threading.get_ident() in self.early
        return self.moment - timedelta(milliseconds=1) if early else self.moment


def test_votes_in_the_last_moment_against_the_deadline(world: World) -> None:
    """The sweep and a reader who is there at the deadline agree with what became of the votes."""
    world.bind(world.carol, "ou_carol")
    bob = doors.person(world.bob)
    tally = Tally("two decisions against the deadline")
    for _ in tally.rounds():
        row = world.ask()
        card = doors.sent(row)
        hands = SplitClock(row.expires_at)
        with clock.set_to(hands):
            votes = [partial(bob.respond, row, "approve"), doors.tap(card, "ou_carol", "reject")]

            def early(index: int, votes: list = votes, hands: SplitClock = hands) -> Answer:
                hands.early.add(threading.get_ident())
                answer: Answer = votes[index]()
                return answer

            *answers, _, read = at_once(
                partial(early, 0), partial(early, 1), confirmations.sweep, partial(confirmations.settle, row)
            )
            accepted = [told(answer) for answer in answers if answer.accepted]
            status = tally.end(row, told=[*map(told, answers), told(read)], votes=len(accepted))
        tally.fault("winners", accepted != [status] * (status != "expired"))
    tally.record()


def test_a_tap_against_the_last_failed_delivery(world: World) -> None:
    world.bind(world.bob, "ou_bob")
    world.set_agent(confirmation_mode="channel_only")
    tally = Tally("a tap against the last failed card")
    for _ in tally.rounds():
        row = world.ask()
        tap = doors.tap(doors.sent(row), "ou_bob", "approve")
        Delivery.objects.filter(topic=f"confirmation:{row.pk}").update(status="failed")
        answer, undeliverable = at_once(tap, partial(confirmations.mark_undeliverable, request_id=row.pk))
        status = tally.end(row, told=[told(answer)], votes=not undeliverable)
        tally.fault("winners", status != ("undeliverable" if undeliverable else "approved"))
    tally.record()


def stop(world: World, switch: str) -> None:
    """Switch the agent off from a shell."""
    if switch == "halt":
        halting.halt(organization=world.organization, reason="stop", actor=audit.SHELL)
    else:
        halting.set_read_only(organization=world.organization, read_only=True, actor=audit.SHELL)


def go_on(world: World, switch: str) -> None:
    """Take it back."""
    if switch == "halt":
        halting.resume(organization=world.organization, actor=audit.SHELL)
    else:
        halting.set_read_only(organization=world.organization, read_only=False, actor=audit.SHELL)


SWITCHES = {"halt": "halted", "read-only": "read_only"}


@pytest.mark.parametrize("switch", SWITCHES)
def test_deciding_against_a_switch(world: World, switch: str) -> None:
    """The decision counts, and nothing runs until the switch is taken back."""
    world.bind(world.bob, "ou_bob")
    runtime = doors.runtime(world)
    tally = Tally(f"a decision against {switch}")
    for _ in tally.rounds():
        row = world.ask()
        answer, _ = at_once(doors.tap(doors.sent(row), "ou_bob", "approve"), partial(stop, world, switch))
        tally.end(row, told=[told(answer)], votes=1)
        attempt = uuid.uuid4()
        tally.fault("ran while stopped", runtime.consume(row, attempt).body.get("code") != SWITCHES[switch])
        go_on(world, switch)
        tally.fault("lost", runtime.consume(row, attempt).status != 200)
    tally.record()


@pytest.mark.parametrize("switch", SWITCHES)
def test_consuming_against_a_switch(world: World, switch: str) -> None:
    """Either the approval was used before, or not at all; the same attempt is not let through afterwards."""
    runtime = doors.runtime(world)
    tally = Tally(f"consuming against {switch}")
    for _ in tally.rounds():
        row = world.approve(world.ask(), world.bob)
        attempt = uuid.uuid4()
        answer, _ = at_once(partial(runtime.consume, row, attempt), partial(stop, world, switch))
        used = ConfirmationRequest.objects.get(pk=row.pk).consumed_at is not None
        tally.seen("used" if used else "refused")
        tally.fault(
            "told",
            (answer.status, answer.body.get("code")) != ((200, None) if used else (409, SWITCHES[switch])),
        )
        tally.fault("ran while stopped", runtime.consume(row, attempt).body.get("code") != SWITCHES[switch])
        go_on(world, switch)
    tally.record()


def test_ending_twice_at_once(world: World) -> None:
    """A runtime cancels from two processes while the sweep runs: one transition, both told so."""
    tally = Tally("cancelling twice")
    for _ in tally.rounds():
        row = world.ask()
        cancel = partial(confirmations.cancel, request=row)
        results = at_once(cancel, cancel, confirmations.sweep)
        tally.end(row, told=map(told, results[:2]), votes=0)
        tally.fault("refused", len(codes(results)) + isinstance(results[2], Problem))
    tally.record()
