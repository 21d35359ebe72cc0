"""A quorum counts seats, and one account is one voter, whoever and whatever is re-bound between two votes."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from channels_app.models import Identity
from hooks_app.approvers import eligibility
from hooks_app.models import Decision
from portal.models import Absence, AuditEvent, Group, GroupMember, User
from tests import make
from tests.confirmations.conftest import refused
from tests.confirmations.world import World, counting, state
from tests.conftest import Clock


@pytest.fixture
def group(world: World, time: Clock) -> Group:
    """Bob and Carol decide, both of them; Mia and Nina are members who can stand in."""
    group = Group.objects.create(organization=world.organization, slug="treasury")
    for user in (world.bob, world.carol):
        GroupMember.objects.create(group=group, user=user)
    world.set_policy(scope="group", group=group, quorum=2)
    return group


@pytest.fixture
def mia(world: World) -> User:
    return make.user("mia", world.organization, "member")


@pytest.fixture
def nina(world: World) -> User:
    return make.user("nina", world.organization, "member")


def away(world: World, time: Clock, absent: User, substitute: User, *, days: int = 0) -> Absence:
    """``absent`` is away since ``days`` days ago, and ``substitute`` stands in."""
    today = time.moment.date()
    return Absence.objects.create(
        organization=world.organization,
        user=absent,
        substitute=substitute,
        first_day=today - timedelta(days=1 + days),
        last_day=today + timedelta(days=3),
    )


def test_a_seat_has_one_vote_whoever_casts_it_first(
    world: World, time: Clock, group: Group, mia: User
) -> None:
    away(world, time, world.bob, mia)
    row = world.ask()
    world.approve(row, mia)
    with refused(409, "already_voted") as problem:
        world.approve(row, world.bob)
    assert "mia" in problem.value.detail
    assert state(row) == "pending"
    # The page says so before anybody tries, and an account that taps is told alike.
    browser = Client()
    browser.force_login(world.bob, backend="django.contrib.auth.backends.ModelBackend")
    page = browser.get(f"/inbox/{row.pk}/").content.decode()
    assert "mia has approved already on the same seat" in page
    assert 'value="approve"' not in page
    assert "same seat" in browser.post(f"/inbox/{row.pk}/", {"decision": "reject"}).content.decode()
    world.bind(world.bob, "ou_bob")
    reply = world.tap(row, "ou_bob", "approve")
    assert (reply.ok, "mia has decided already on the same seat" in reply.text) == (False, True)
    world.approve(row, world.carol)
    assert state(row) == "approved"


def test_the_other_way_round_too_and_for_the_other_decision(
    world: World, time: Clock, group: Group, mia: User
) -> None:
    away(world, time, world.bob, mia)
    world.set_policy(reject_quorum=2)
    row = world.ask()
    world.reject(row, world.bob)
    for decision in ("approve", "reject"):
        with refused(409, "already_voted") as problem:
            world.decide(row, mia, decision)
        assert "bob" in problem.value.detail
    world.reject(row, world.carol)
    assert state(row) == "rejected"


def test_whoever_has_a_seat_fills_it_and_nobody_elses(world: World, time: Clock, group: Group) -> None:
    away(world, time, world.bob, world.carol)
    row = world.ask()
    world.approve(row, world.carol)
    world.approve(row, world.bob)
    assert state(row) == "approved"


def test_the_earliest_absence_is_filled_first(
    world: World, time: Clock, group: Group, mia: User, nina: User
) -> None:
    away(world, time, world.carol, mia, days=2)
    away(world, time, world.bob, mia)
    away(world, time, world.bob, nina)
    row = world.ask()
    world.approve(row, mia)  # for Carol, who has been away longer
    with refused(409, "already_voted"):
        world.approve(row, world.carol)
    world.approve(row, nina)
    assert state(row) == "approved"


def test_the_count_of_who_may_approve_counts_seats(
    world: World, time: Clock, group: Group, mia: User, nina: User
) -> None:
    away(world, time, world.bob, mia)
    away(world, time, world.carol, nina)
    world.set_policy(quorum=3)
    with refused(422, "no_eligible_approver"):
        world.ask()
    assert eligibility.seats(world.organization.pk, "group", group.pk) == 2


Change = Callable[[World, Clock, Group, User], Any]


def _leave_group(world: World, time: Clock, group: Group, mia: User) -> None:
    GroupMember.objects.filter(group=group, user=world.bob).delete()


def _switch_off(world: World, time: Clock, group: Group, mia: User) -> None:
    User.objects.filter(pk=world.bob.pk).update(is_active=False)


def _leave(world: World, time: Clock, group: Group, mia: User) -> None:
    world.bob.memberships.all().delete()


def _become_initiator(world: World, time: Clock, group: Group, mia: User) -> None:
    User.objects.filter(pk=world.bob.pk).update(email="kim@elsewhere.test")


def _bind_initiator(world: World, time: Clock, group: Group, mia: User) -> None:
    Identity.objects.create(organization=world.organization, external_id="u42", user=world.bob)


CHANGES = [_leave_group, _switch_off, _leave, _become_initiator, _bind_initiator]


@pytest.mark.parametrize("change", CHANGES)
def test_whoever_may_no_longer_vote_does_not_count_at_the_closing_vote(
    world: World, time: Clock, group: Group, mia: User, change: Change
) -> None:
    GroupMember.objects.create(group=group, user=mia)
    row = world.ask()
    world.approve(row, world.bob)
    change(world, time, group, mia)
    world.approve(row, world.carol)
    assert state(row) == "pending"
    assert counting(row) == {"bob": False, "carol": True}
    world.approve(row, mia)
    assert state(row) == "approved"


def test_a_vote_counts_again_when_its_voter_may_vote_again(world: World, time: Clock, group: Group) -> None:
    row = world.ask()
    world.approve(row, world.bob)
    _switch_off(world, time, group, world.bob)
    world.approve(row, world.carol)
    assert (state(row), counting(row)) == ("pending", {"bob": False, "carol": True})
    User.objects.filter(pk=world.bob.pk).update(is_active=True)
    # Nothing new is said; it is only noticed.
    world.approve(row, User.objects.get(pk=world.bob.pk))
    assert state(row) == "approved"
    assert Decision.objects.filter(request=row).count() == 2


def test_a_substitute_whose_absence_ended_does_not_count(
    world: World, time: Clock, group: Group, mia: User, nina: User
) -> None:
    absence = away(world, time, world.bob, mia)
    row = world.ask()
    world.approve(row, mia)
    Absence.objects.filter(pk=absence.pk).update(substitute=nina)
    world.approve(row, world.carol)
    assert (state(row), counting(row)) == ("pending", {"mia": False, "carol": True})
    world.approve(row, nina)
    assert state(row) == "approved"


def test_rejections_are_judged_again_alike(world: World, time: Clock, group: Group, mia: User) -> None:
    GroupMember.objects.create(group=group, user=mia)
    world.set_policy(reject_quorum=2)
    row = world.ask()
    world.reject(row, world.bob)
    _switch_off(world, time, group, mia)
    world.reject(row, world.carol)
    assert (state(row), counting(row)) == ("pending", {"bob": False, "carol": True})
    world.reject(row, mia)
    assert state(row) == "rejected"


def test_an_account_that_has_voted_is_the_voter_that_it_was(world: World, time: Clock, group: Group) -> None:
    bound = world.bind(world.bob, "ou_1")
    row = world.ask()
    assert world.tap(row, "ou_1", "approve").ok
    Identity.objects.filter(pk=bound.pk).update(user=world.carol)
    # The same decision again changes nothing, another is refused: Carol hasn't voted.
    world.tap(row, "ou_1", "approve")
    assert not world.tap(row, "ou_1", "reject").ok
    assert (state(row), list(counting(row))) == ("pending", ["bob"])
    # Carol herself has a vote, by any other way; and Bob's counts while the account is his, or he stands by it himself.
    world.approve(row, world.carol)
    assert (state(row), counting(row)) == ("pending", {"bob": False, "carol": True})
    assert world.approve(row, world.bob).status == "approved"
    assert Decision.objects.filter(request=row).count() == 2
    confirmed = AuditEvent.objects.get(action="decision.confirmed")
    assert (confirmed.actor_name, confirmed.data["account"]) == ("bob", None)


def test_a_person_with_a_second_account_has_voted(world: World, time: Clock, group: Group) -> None:
    world.bind(world.bob, "ou_1")
    row = world.ask()
    world.tap(row, "ou_1", "approve")
    Identity.objects.filter(external_id="ou_1").delete()
    world.bind(world.bob, "ou_2")
    world.tap(row, "ou_2", "approve")
    world.approve(row, world.bob)
    assert (state(row), len(counting(row))) == ("pending", 1)


@pytest.mark.parametrize("again", ["web", "tap", "other account"])
def test_an_account_that_nobody_was_bound_to_counts_as_its_person_afterwards(
    world: World, time: Clock, again: str
) -> None:
    world.set_policy(scope="channel_members", quorum=2)
    row = world.ask()
    assert world.tap(row, "ou_1", "approve").ok
    world.bind(world.bob, "ou_1")
    world.bind(world.bob, "ou_2")
    if again == "web":
        world.approve(row, world.bob)
    else:
        world.tap(row, "ou_1" if again == "tap" else "ou_2", "approve")
    assert (state(row), len(counting(row))) == ("pending", 1)
    assert world.tap(row, "ou_3", "approve").ok
    assert state(row) == "approved"
