"""People, accounts and seats change between two votes, in every direction: never more votes than people."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest

from channels_app.models import Identity
from hooks_app.models import ConfirmationRequest
from portal.lib.problems import Problem
from portal.models import Absence, AuditEvent, Group, Membership, User
from tests import make
from tests.confirmations.world import World, counting, state
from tests.conftest import Clock


class Office:
    """Bob and Carol are the treasury, and both must approve; Mia is a member. ``ou_x`` and ``ou_y`` are accounts."""

    def __init__(self, world: World, clock: Clock) -> None:
        self.world, self.clock = world, clock
        self.mia = make.user("mia", world.organization, "member")
        self.group = Group.objects.create(organization=world.organization, slug="treasury")
        self.group.members.set([world.bob, world.carol])
        world.set_policy(scope="group", group=self.group, quorum=2)
        self.row = world.ask()

    def open_to_chat(self, quorum: int) -> None:
        """Ask anew, and let any account of the chat decide."""
        self.world.set_policy(scope="channel_members", group=None, quorum=quorum)
        self.row = self.world.ask()

    def user(self, name: str) -> User:
        """As stored now."""
        return User.objects.get(username=name)

    def web(self, name: str) -> None:
        """``name`` approves in the inbox, or is refused."""
        self.clock.advance(seconds=1)
        with suppress(Problem):
            self.world.approve(self.row, self.user(name))

    def tap(self, account: str) -> None:
        """An account taps Approve."""
        self.clock.advance(seconds=1)
        self.world.tap(self.row, account, "approve")

    def bind(self, account: str, name: str | None) -> None:
        """The account is ``name``'s from now on, or nobody's."""
        Identity.objects.filter(external_id=account).delete()
        if name:
            self.world.bind(self.user(name), account)

    def active(self, name: str, is_active: bool) -> None:
        """Switch a person off or on."""
        User.objects.filter(username=name).update(is_active=is_active)

    def away(self, name: str, substitute: str) -> Absence:
        """``name`` is away today."""
        today = self.clock.moment.date()
        return Absence.objects.create(
            organization=self.world.organization,
            user=self.user(name),
            substitute=self.user(substitute),
            first_day=today - timedelta(days=2),
            last_day=today + timedelta(days=2),
        )

    def counting(self) -> dict[str, bool]:
        """Whose votes count, as the resource says."""
        row = ConfirmationRequest.objects.select_related("agent", "organization").get(pk=self.row.pk)
        return counting(row)


def rebound_taps_again(office: Office) -> None:
    office.bind("ou_x", "bob")
    office.tap("ou_x")
    office.bind("ou_x", "carol")
    office.tap("ou_x")


def rebound_and_its_new_person_votes_in_the_inbox(office: Office) -> None:
    rebound_taps_again(office)
    office.web("carol")


def rebound_and_its_new_person_taps_with_another(office: Office) -> None:
    office.bind("ou_x", "bob")
    office.bind("ou_y", "carol")
    office.tap("ou_x")
    office.bind("ou_x", "carol")
    office.tap("ou_y")


def rebound_and_back(office: Office) -> None:
    rebound_and_its_new_person_votes_in_the_inbox(office)
    office.bind("ou_x", "bob")
    office.web("carol")


def unbound(office: Office) -> None:
    office.bind("ou_x", "bob")
    office.tap("ou_x")
    office.bind("ou_x", None)
    office.web("carol")


def unbound_and_its_person_stands_by_it(office: Office) -> None:
    unbound(office)
    office.web("bob")


def unbound_and_its_person_taps_with_another(office: Office) -> None:
    unbound(office)
    office.bind("ou_y", "bob")
    office.tap("ou_y")


def unbound_and_bound_again(office: Office) -> None:
    office.bind("ou_x", "bob")
    office.tap("ou_x")
    office.bind("ou_x", None)
    office.bind("ou_x", "bob")
    office.web("carol")


def voted_and_bound_afterwards(office: Office) -> None:
    office.web("bob")
    office.bind("ou_x", "bob")
    office.tap("ou_x")


def two_accounts_of_one_person(office: Office) -> None:
    office.bind("ou_x", "bob")
    office.bind("ou_y", "bob")
    for account in ("ou_x", "ou_y", "ou_x"):
        office.tap(account)


def voted_as_one_person_and_given_to_another_who_has_voted(office: Office) -> None:
    office.bind("ou_x", "bob")
    office.web("carol")
    office.tap("ou_x")  # both have voted, and it is approved


def switched_off_and_on(office: Office) -> None:
    office.web("bob")
    office.active("bob", False)
    office.active("bob", True)
    office.web("bob")
    office.web("carol")


def switched_off(office: Office) -> None:
    office.web("bob")
    office.active("bob", False)
    office.web("carol")


def left_and_another_joined(office: Office) -> None:
    office.web("bob")
    Membership.objects.filter(user=office.world.bob).delete()
    office.group.members.set([office.world.carol, office.mia])
    office.web("carol")


def left_and_another_joined_and_voted(office: Office) -> None:
    left_and_another_joined(office)
    office.web("mia")


def stood_in_until_the_absence_ended(office: Office) -> None:
    absence = office.away("bob", "mia")
    office.web("mia")
    absence.delete()
    office.web("carol")


def stood_in_until_the_absence_ended_and_the_other_is_back(office: Office) -> None:
    stood_in_until_the_absence_ended(office)
    office.web("bob")


def voted_and_went_away(office: Office) -> None:
    office.web("bob")
    office.away("bob", "mia")
    office.web("mia")


def stood_in_for_two(office: Office) -> None:
    office.away("bob", "mia")
    office.away("carol", "mia")
    office.web("mia")
    office.web("mia")


def stood_in_and_got_a_seat_of_their_own(office: Office) -> None:
    office.away("bob", "mia")
    office.web("mia")
    office.group.members.add(office.mia)
    office.web("bob")


def the_substitute_became_another(office: Office) -> None:
    absence = office.away("bob", "mia")
    office.web("mia")
    make.user("nina", office.world.organization, "member")
    Absence.objects.filter(pk=absence.pk).update(substitute=office.user("nina"))
    office.web("nina")


def two_accounts_turned_out_to_be_one_person(office: Office) -> None:
    office.open_to_chat(quorum=3)
    office.tap("ou_x")
    office.tap("ou_y")
    office.bind("ou_x", "bob")
    office.bind("ou_y", "bob")
    office.tap("ou_z")


def an_account_turned_out_to_be_somebody_switched_off(office: Office) -> None:
    office.open_to_chat(quorum=2)
    office.tap("ou_x")
    office.bind("ou_x", "bob")
    office.active("bob", False)
    office.tap("ou_z")


def an_account_was_taken_from_its_person_in_the_chat(office: Office) -> None:
    office.open_to_chat(quorum=2)
    office.bind("ou_x", "bob")
    office.tap("ou_x")
    office.bind("ou_x", None)
    office.tap("ou_x")


YES, NO = True, False
TABLE: list[tuple[Callable[[Office], None], dict[str, bool], str]] = [
    (rebound_taps_again, {"bob": YES}, "pending"),
    (rebound_and_its_new_person_votes_in_the_inbox, {"bob": NO, "carol": YES}, "pending"),
    (rebound_and_its_new_person_taps_with_another, {"bob": NO, "carol": YES}, "pending"),
    (rebound_and_back, {"bob": YES, "carol": YES}, "approved"),
    (unbound, {"bob": NO, "carol": YES}, "pending"),
    (unbound_and_its_person_stands_by_it, {"bob": YES, "carol": YES}, "approved"),
    (unbound_and_its_person_taps_with_another, {"bob": YES, "carol": YES}, "approved"),
    (unbound_and_bound_again, {"bob": YES, "carol": YES}, "approved"),
    (voted_and_bound_afterwards, {"bob": YES}, "pending"),
    (two_accounts_of_one_person, {"bob": YES}, "pending"),
    (voted_as_one_person_and_given_to_another_who_has_voted, {"bob": YES, "carol": YES}, "approved"),
    (switched_off_and_on, {"bob": YES, "carol": YES}, "approved"),
    (switched_off, {"bob": NO, "carol": YES}, "pending"),
    (left_and_another_joined, {"bob": NO, "carol": YES}, "pending"),
    (left_and_another_joined_and_voted, {"bob": NO, "carol": YES, "mia": YES}, "approved"),
    (stood_in_until_the_absence_ended, {"mia": NO, "carol": YES}, "pending"),
    (
        stood_in_until_the_absence_ended_and_the_other_is_back,
        {"mia": NO, "carol": YES, "bob": YES},
        "approved",
    ),
    (voted_and_went_away, {"bob": YES}, "pending"),
    (stood_in_for_two, {"mia": YES}, "pending"),
    (stood_in_and_got_a_seat_of_their_own, {"mia": YES, "bob": YES}, "approved"),
    (the_substitute_became_another, {"mia": NO, "nina": YES}, "pending"),
    (two_accounts_turned_out_to_be_one_person, {"ou_x": YES, "ou_y": NO, "ou_z": YES}, "pending"),
    (an_account_turned_out_to_be_somebody_switched_off, {"ou_x": NO, "ou_z": YES}, "pending"),
    (an_account_was_taken_from_its_person_in_the_chat, {"bob": YES}, "pending"),
]


@pytest.mark.parametrize(("happens", "votes", "status"), TABLE, ids=[row[0].__name__ for row in TABLE])
def test_no_direction_makes_two_votes_of_one(
    world: World, time: Clock, happens: Callable[[Office], None], votes: dict[str, bool], status: str
) -> None:
    office = Office(world, time)
    happens(office)
    assert (office.counting(), state(office.row)) == (votes, status)


def test_a_vote_that_stops_counting_is_in_the_record(world: World, time: Clock) -> None:
    office = Office(world, time)
    switched_off(office)
    office.active("bob", True)
    office.web("bob")
    actions = AuditEvent.objects.filter(action__in=["decision.discounted", "decision.counted"])
    assert [(event.action, event.data["voter"]) for event in actions.order_by("sequence")] == [
        ("decision.discounted", "bob"),
        ("decision.counted", "bob"),
    ]
