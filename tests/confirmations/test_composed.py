"""The composed questions about people against the plain queries, on random worlds, in every scope."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels_app.models import Identity
from hooks_app.approvers import eligibility, scopes
from hooks_app.approvers.scopes import Asked
from hooks_app.models import ConfirmationRequest, Stage
from hooks_app.models.policies import Scope
from portal.models import Absence, Group, GroupMember, Membership, Role, User
from tests import make
from tests.confirmations.test_seat_matching import forgotten
from tests.confirmations.world import World
from tests.conftest import Clock
from tests.soak import counts

NAMES = ["anna", "bert", "cleo", "dirk"]
# An id in several spellings and cases: composed, decomposed, ligature, wide.
IDS = ["u42", "U42", "é1", "e\u0301" + "1", "É1", "ﬁx", "fix", "ＡＢ", "AB", "anna@acme.test"]
person = st.fixed_dictionaries(
    {
        "role": st.sampled_from([*Role.values, None]),
        "active": st.integers(0, 5).map(bool),
        "in_group": st.booleans(),
        "bound": st.none() | st.sampled_from(IDS),
    }
)
worlds = st.fixed_dictionaries(
    {
        "people": st.tuples(*[person] * len(NAMES)),
        "owner": st.none() | st.sampled_from(NAMES),
        "matched": st.none() | st.sampled_from(NAMES),
        "initiator": st.none()
        | st.fixed_dictionaries(
            {
                "id": st.sampled_from(IDS),
                "email": st.none() | st.sampled_from(["anna@acme.test", "bert@acme.test", "x@y.test"]),
            }
        ),
        # Absent, substitute, first and last day from today.
        "away": st.lists(
            st.tuples(
                st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(-2, 1), st.integers(-1, 2)
            ).filter(lambda one: one[0] != one[1] and one[2] <= one[3]),
            max_size=4,
        ),
        "quorum": st.integers(1, 3),
    }
)


def build(facts: dict[str, Any], world: World, people: dict[str, User], group: Group, clock: Clock) -> None:
    """Make the world of ``facts``."""
    for name, told in zip(NAMES, facts["people"], strict=True):
        user = people[name]
        User.objects.filter(pk=user.pk).update(is_active=told["active"])
        seat = Membership.objects.filter(user=user, organization=world.organization)
        seat.update(role=told["role"]) if told["role"] else seat.delete()
        if told["in_group"]:
            GroupMember.objects.create(group=group, user=user)
        if told["bound"] and not Identity.objects.filter(external_id=told["bound"]).exists():
            Identity.objects.create(organization=world.organization, user=user, external_id=told["bound"])
    today = clock.moment.date()
    for absent, substitute, first, last in facts["away"]:
        Absence.objects.create(
            organization=world.organization,
            user=people[absent],
            substitute=people[substitute],
            first_day=today + timedelta(days=first),
            last_day=today + timedelta(days=last),
        )


@dataclass
class Case:
    """A request that is asked about in every scope, of people whom each example changes."""

    world: World
    people: dict[str, User]
    row: ConfirmationRequest
    stage: Stage

    def ask(self, facts: dict[str, Any], scope: str, *, forbids: bool) -> None:
        """Let the request be one of this kind."""
        row, stage = self.row, self.stage
        row.policy = {**row.policy, "forbid_self_approval": forbids}
        row.initiator = facts["initiator"]
        row.initiator_user = self.people[facts["matched"]] if facts["matched"] else None
        row.agent.owner = self.people[facts["owner"]] if facts["owner"] else None
        stage.scope, stage.quorum = scope, facts["quorum"]

    def check(self) -> None:
        """Composed and plain answers are the same."""
        row, stage = self.row, self.stage
        asked = Asked.of(row, stage)
        count = eligibility.count(row, stage)
        assert eligibility.suffice(row, stage) == (count >= stage.quorum)
        if stage.scope != Scope.CHANNEL_MEMBERS:
            assert scopes.lacking([asked]) == {asked: max(0, stage.quorum - count)}
        able = set(eligibility.people(row, stage).values_list("pk", flat=True))
        same = set(eligibility.initiators(row).values_list("pk", flat=True))
        for user in self.people.values():
            wanted = user.pk in same if user.pk in able else None
            assert scopes.standing(asked, user.pk) == wanted
            assert scopes.standings([asked, asked], user.pk) == {asked: wanted}


def test_the_composed_answers_are_the_plain_ones(world: World, time: Clock) -> None:
    people = {name: make.user(name, world.organization, "member") for name in NAMES}
    group = Group.objects.create(organization=world.organization, slug="treasury")
    row = world.ask()
    case = Case(world, people, row, row.stages.get())
    case.stage.group = group.pk

    @settings(
        max_examples=300 if counts.SOAK else 15,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(worlds)
    def check(facts: dict[str, Any]) -> None:
        with forgotten():
            build(facts, world, people, group, time)
            for scope in Scope.values:
                for forbids in (False, True):
                    case.ask(facts, scope, forbids=forbids)
                    case.check()

    check()
