"""Many decide at once, in the chat and over REST: one transition wins, and everybody is told the same."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from channels_app.models import Identity
from hooks_app.models import ConfirmationRequest, Decision
from portal.lib import clock
from portal.lib.problems import Problem
from portal.models import Absence, User
from tests import make
from tests.confirmations.world import World
from tests.races import doors
from tests.races.crowd import MOST, at_once, codes
from tests.races.doors import Answer, told
from tests.races.tally import Tally

pytestmark = pytest.mark.django_db(transaction=True)


def crowd(world: World, size: int) -> list[User]:
    """So many more approvers."""
    return [make.user(f"approver{index}", world.organization) for index in range(size)]


def test_64_mixed_decisions_through_all_doors(world: World) -> None:
    """Everybody decides once; two in four approve, two in four tap."""
    people = crowd(world, MOST)
    clients = [doors.person(user) for user in people]
    for user in people:
        world.bind(user, f"ou_{user.username}")
    tally = Tally("64 mixed decisions")
    for _ in tally.rounds(3):
        row = world.ask()
        card = doors.sent(row)
        wishes = ["approve" if index % 2 else "reject" for index in range(MOST)]
        jobs: list[Callable[[], Answer]] = [
            doors.tap(card, f"ou_{people[index].username}", wish)
            if index % 4 < 2
            else partial(clients[index].respond, row, wish)
            for index, wish in enumerate(wishes)
        ]
        results = at_once(*jobs)
        tally.end(row, told=map(told, results), votes=1)
        winners = [index for index, result in enumerate(results) if result.accepted]
        tally.fault("winners", len(winners) != 1)
        if not winners:
            continue
        vote = Decision.objects.get(request=row)
        tally.fault("misattributed", (vote.user, vote.decision) != (people[winners[0]], wishes[winners[0]]))
        tally.seen("by tap" if vote.identity_facts else "over REST")
    tally.record()


def test_two_last_votes_at_once_reach_the_quorum(world: World) -> None:
    """One taps, the other answers over REST."""
    world.set_policy(quorum=2)
    world.bind(world.bob, "ou_bob")
    carol = doors.person(world.carol)
    tally = Tally("two last votes of a quorum")
    for _ in tally.rounds():
        row = world.ask()
        results = at_once(
            doors.tap(doors.sent(row), "ou_bob", "approve"), partial(carol.respond, row, "approve")
        )
        # Whoever was first was told that more is needed.
        tally.end(row, told=[told(result) for result in results if told(result) != "pending"], votes=2)
        tally.fault("refused", sum(not result.accepted for result in results))
        tally.fault("nobody was last", sorted(map(told, results)) != ["approved", "pending"])
    tally.record()


def test_one_vote_too_many_is_not_counted(world: World) -> None:
    world.set_policy(quorum=3)
    people = crowd(world, 6)
    tally = Tally("six votes for a quorum of three")
    for _ in tally.rounds():
        row = world.ask()
        results = at_once(*(partial(world.approve, row, user) for user in people))
        tally.end(row, told=[told(result) for result in results if told(result) != "pending"], votes=3)
        tally.fault("refusals", codes(results) != ["already_decided"] * 3)
    tally.record()


def test_one_person_at_several_places_has_one_vote(world: World) -> None:
    world.set_policy(quorum=2)
    world.bind(world.bob, "ou_bob")
    bob = doors.person(world.bob)
    tally = Tally("one person at three places")
    for _ in tally.rounds():
        row = world.ask()
        results = at_once(
            partial(bob.respond, row, "approve"),
            doors.tap(doors.sent(row), "ou_bob", "approve"),
            partial(bob.respond, row, "approve"),
        )
        tally.end(row, told=map(told, results), votes=1, pending=True)
        tally.fault("refused", sum(not result.accepted for result in results))
    tally.record()


def test_a_seat_that_two_claim_at_once_has_one_vote(world: World) -> None:
    """Somebody who is away and whoever stands in for them."""
    stand_in = make.user("stand-in", world.organization, "member")
    today = clock.now().date()
    Absence.objects.create(
        organization=world.organization,
        user=world.bob,
        substitute=stand_in,
        first_day=today - timedelta(days=1),
        last_day=today + timedelta(days=1),
    )
    world.set_policy(quorum=2)
    tally = Tally("two for one seat")
    for _ in tally.rounds():
        row = world.ask()
        results = at_once(partial(world.approve, row, world.bob), partial(world.approve, row, stand_in))
        tally.end(
            row, told=["pending" for result in results if told(result) == "pending"], votes=1, pending=True
        )
        tally.fault("refusals", codes(results) != ["already_voted"])
        tally.fault("seats", Decision.objects.filter(request=row, counts=True).count() != 1)
    tally.record()


def test_an_account_that_changes_hands_between_two_taps_has_one_vote(world: World) -> None:
    """Both callbacks are under way while an admin binds the account to somebody else."""
    bound = world.bind(world.bob, "ou_shared")
    world.set_policy(quorum=2)
    tally = Tally("an account changes hands")
    for number, _ in enumerate(tally.rounds()):
        row = world.ask()
        card = doors.sent(row)
        new = world.carol if number % 2 else world.bob
        rebind = partial(Identity.objects.filter(pk=bound.pk).update, user=new)
        at_once(doors.tap(card, "ou_shared", "approve"), rebind, doors.tap(card, "ou_shared", "approve"))
        doors.tap(card, "ou_shared", "approve")()
        tally.fault("votes", Decision.objects.filter(request=row).count() != 1)
        tally.fault("ended", ConfirmationRequest.objects.get(pk=row.pk).status != "pending")
    tally.record()


def test_the_same_tap_many_times_is_one_vote(world: World) -> None:
    """The platform repeats a callback whose answer it didn't get; all copies get the first one's answer."""
    world.bind(world.bob, "ou_bob")
    tally = Tally("one callback eight times")
    for _ in tally.rounds():
        row = world.ask()
        results = at_once(*[doors.tap(doors.sent(row), "ou_bob", "approve")] * 8)
        tally.end(row, told=map(told, results), votes=1)
        tally.fault("answers differ", any(result != results[0] for result in results))
    tally.record()


def test_one_person_cannot_say_both(world: World) -> None:
    tally = Tally("one person says both")
    for _ in tally.rounds():
        row = world.ask()
        results: list[Any] = at_once(
            partial(world.approve, row, world.bob), partial(world.reject, row, world.bob)
        )
        kept = [told(result) for result in results if not isinstance(result, Problem)]
        tally.end(row, told=kept, votes=1)
        tally.fault("refusals", codes(results) != ["already_voted"])
    tally.record()
