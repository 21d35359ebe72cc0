"""Who may decide and who may see: judged at each vote, in each scope, on each path."""

from datetime import date
from typing import Any

import pytest

from hooks_app.approvers import eligibility
from hooks_app.confirmations import Initiator
from hooks_app.models import ConfirmationRequest
from portal.models import Absence, Group, Membership, User
from tests import make
from tests.confirmations.conftest import refused
from tests.confirmations.world import World
from tests.conftest import Clock

NAMES = ["alice", "bob", "carol", "dave", "erin"]


def may(world: World, row: ConfirmationRequest) -> list[str]:
    """The members of the world who may approve."""
    people = [getattr(world, name) for name in NAMES]
    return [user.username for user in people if eligibility.may_decide(row, user) is None]


def finance(world: World, *members: User) -> Group:
    """The group ``finance``."""
    group, _ = Group.objects.get_or_create(organization=world.organization, slug="finance")
    group.members.set(members)
    return group


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("initiator", ["carol"]),
        ("agent_owner", ["dave"]),
        ("org_members", NAMES),
        ("approvers", ["alice", "bob", "carol"]),
        ("group", ["bob", "erin"]),
        ("channel_members", []),
    ],
)
def test_each_scope_names_its_people(world: World, scope: str, expected: list[str]) -> None:
    group = finance(world, world.bob, world.erin)
    world.set_policy(scope=scope, group=group if scope == "group" else None, forbid_self_approval=False)
    row = world.ask(initiator=Initiator(id="c", email="carol@acme.test"))
    assert may(world, row) == expected
    for name in expected[:1]:
        assert world.approve(row, getattr(world, name)).status == "approved"


def test_the_person_is_judged_at_the_vote(world: World) -> None:
    row = world.ask()
    User.objects.filter(pk=world.bob.pk).update(is_active=False)
    world.bob.refresh_from_db()
    Membership.objects.filter(user=world.carol).update(role="member")
    Membership.objects.filter(user=world.alice).delete()
    Membership.objects.filter(user=world.dave).update(role="approver")
    assert may(world, row) == ["dave"]
    for user in (world.alice, world.bob, world.carol):
        with refused(403, "not_an_approver"):
            world.approve(row, user)


def test_a_group_is_read_at_the_vote(world: World) -> None:
    group = finance(world, world.bob)
    world.set_policy(scope="group", group=group)
    row = world.ask()
    group.members.set([world.dave])
    assert may(world, row) == ["dave"]
    Membership.objects.filter(user=world.dave).delete()
    assert may(world, row) == []


def test_other_organizations_roles_count_for_nothing(world: World) -> None:
    other = make.organization("evil")
    mallory = make.user("mallory", other, "admin")
    row = world.ask()
    with refused(403, "not_an_approver"):
        world.approve(row, mallory)
    assert list(eligibility.visible_to(mallory)) == []


def test_a_superuser_without_membership_sees_and_does_not_decide(world: World) -> None:
    root = make.user("root", is_superuser=True)
    row = world.ask()
    assert list(eligibility.visible_to(root)) == [row]
    with refused(403, "not_an_approver"):
        world.approve(row, root)


def test_channel_only_is_decided_by_taps_alone(world: World) -> None:
    world.set_agent(confirmation_mode="channel_only")
    row = world.ask()
    assert may(world, row) == []
    for decision in ("approve", "reject"):
        with refused(403, "channel_only"):
            world.decide(row, world.bob, decision)


def absent(world: World, user: User, substitute: User, first: date, last: date) -> None:
    """``user`` is away and ``substitute`` stands in."""
    Absence.objects.create(
        organization=world.organization, user=user, substitute=substitute, first_day=first, last_day=last
    )


def test_a_substitute_decides_on_the_days_of_absence_in_the_organizations_zone(
    world: World, time: Clock
) -> None:
    # 15:30 in UTC is half past midnight of the next day in Seoul.
    time.moment = time.moment.replace(year=2026, month=11, day=30, hour=15, minute=30)
    absent(world, world.bob, world.dave, date(2026, 12, 1), date(2026, 12, 1))
    row = world.ask()
    assert may(world, row) == ["alice", "bob", "carol", "dave"]
    assert list(eligibility.visible_to(world.dave)) == [row]
    time.advance(hours=-1)
    assert may(world, row) == ["alice", "bob", "carol"]
    time.advance(hours=25)
    assert may(world, row) == ["alice", "bob", "carol"]


def test_a_substitute_stands_in_for_somebody_who_could_decide(world: World, time: Clock) -> None:
    today = time.moment.date()
    absent(world, world.erin, world.dave, date(2000, 1, 1), date(2100, 1, 1))
    assert may(world, world.ask()) == ["alice", "bob", "carol"]
    absent(world, world.bob, world.dave, date(2000, 1, 1), date(2100, 1, 1))
    User.objects.filter(pk=world.bob.pk).update(is_active=False)
    world.bob.refresh_from_db()
    assert may(world, world.ask()) == ["alice", "carol"], today


def test_nobody_approves_in_the_place_of_the_initiator(world: World) -> None:
    absent(world, world.bob, world.dave, date(2000, 1, 1), date(2100, 1, 1))
    row = world.ask(initiator=Initiator(id="b", email="bob@acme.test"))
    assert may(world, row) == ["alice", "carol"]
    row = world.ask()
    assert may(world, row) == ["alice", "bob", "carol", "dave"]


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("approvers", ["alice", "bob", "carol", "dave", "erin"]),
        ("org_members", ["alice", "bob", "carol", "dave", "erin", "frank"]),
        ("group", ["alice", "bob", "carol", "dave", "erin", "grace"]),
    ],
)
def test_who_sees_a_request(world: World, scope: str, expected: list[str]) -> None:
    """Approvers, auditors and admins; the agent's owner (dave); and whom the scope names (frank: nobody's friend)."""
    frank = make.user("frank", world.organization, "member")
    grace = make.user("grace", world.organization, "member")
    group = finance(world, grace)
    world.set_policy(scope=scope, group=group if scope == "group" else None)
    if scope == "org_members":
        Membership.objects.filter(user=grace).delete()
    row = world.ask()
    people: list[Any] = [*(getattr(world, name) for name in NAMES), frank, grace]
    assert [user.username for user in people if row in eligibility.visible_to(user)] == expected


def test_the_initiator_and_who_decided_see_the_request(world: World) -> None:
    frank = make.user("frank", world.organization, "member")
    row = world.ask(initiator=Initiator(id="f", email="frank@acme.test"))
    assert list(eligibility.visible_to(frank)) == [row]
    world.approve(row, world.bob)
    Membership.objects.filter(user=world.bob).update(role="member")
    assert list(eligibility.visible_to(world.bob)) == [row]
    Membership.objects.filter(user=world.bob).delete()
    assert list(eligibility.visible_to(world.bob)) == []


def test_an_inactive_person_sees_nothing(world: World) -> None:
    world.ask()
    world.alice.is_active = False
    world.alice.save()
    assert list(eligibility.visible_to(world.alice)) == []
