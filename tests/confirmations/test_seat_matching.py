"""Seats against a model of them: brute force over who could sit where, on worlds that nobody has thought up."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import permutations

from django.db import transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hooks_app import confirmations
from hooks_app.approvers import eligibility
from hooks_app.confirmations import Voter
from hooks_app.models import ConfirmationRequest, Stage
from portal.lib.problems import Problem
from portal.models import Absence, Group, User
from tests import make
from tests.confirmations.world import World
from tests.conftest import Clock
from tests.soak import counts

NAMES = ["anna", "bert", "cleo", "dirk", "emma"]
absences = st.tuples(st.sampled_from(NAMES[:3]), st.sampled_from(NAMES)).filter(
    lambda pair: pair[0] != pair[1]
)
worlds = st.fixed_dictionaries(
    {
        # Mostly the first three, so that the others stand in.
        "group": st.sets(st.sampled_from(NAMES[:3] * 2 + NAMES), min_size=1, max_size=4),
        "off": st.sets(st.sampled_from(NAMES), max_size=1),
        "initiator": st.none() | st.sampled_from(NAMES),
        "forbid": st.booleans(),
        # (absent, substitute), the earliest absence first
        "away": st.lists(absences, min_size=2, max_size=6),
        "votes": st.permutations(NAMES),
    }
)


def seats_of(facts: dict, person: str) -> list[str]:
    """The seats that ``person`` may fill, in the order in which they do."""
    if person in facts["off"]:
        return []
    seats = facts["group"] - facts["off"]
    if person in seats:
        return [person]
    barred = {facts["initiator"]} if facts["forbid"] else set()
    found = [absent for absent, other in facts["away"] if other == person and absent in seats - barred]
    return list(dict.fromkeys(found))


def most(facts: dict) -> int:
    """How many seats different people can fill at once: every way to seat everybody who may approve, tried."""
    able = [name for name in NAMES if not (facts["forbid"] and name == facts["initiator"])]
    seats = sorted(facts["group"] - facts["off"])
    return max(
        sum(seat in seats_of(facts, person) for person, seat in zip(order, seats, strict=False))
        for order in permutations([*able, *[""] * len(seats)], len(seats))
    )


def expected(facts: dict) -> tuple[list[str], dict[str, str]]:
    """What each vote is answered, and who sits on which seat in the end."""
    told, sitting = [], dict[str, str]()
    for person in facts["votes"]:
        seats = seats_of(facts, person)
        if person in sitting.values():
            told.append("ok")
        elif not seats:
            told.append("not_an_approver")
        elif facts["forbid"] and person == facts["initiator"]:
            told.append("self_approval")
        elif free := next((seat for seat in seats if seat not in sitting), None):
            sitting[free] = person
            told.append("ok")
        else:
            told.append("already_voted")
    return told, sitting


@contextmanager
def forgotten() -> Iterator[None]:
    """What the block writes is undone."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def build(facts: dict, people: dict[str, User], group: Group, row: ConfirmationRequest, clock: Clock) -> None:
    """Make the world of ``facts`` around a request."""
    group.members.set([people[name] for name in facts["group"]])
    User.objects.filter(username__in=facts["off"]).update(is_active=False)
    if facts["initiator"]:
        initiator = {"id": "x", "name": None, "email": f"{facts['initiator']}@acme.test"}
        ConfirmationRequest.objects.filter(pk=row.pk).update(initiator=initiator)
    policy = {**row.policy, "forbid_self_approval": facts["forbid"]}
    ConfirmationRequest.objects.filter(pk=row.pk).update(policy=policy)
    Stage.objects.filter(request=row).update(quorum=99)
    today = clock.moment.date()
    for days, (absent, substitute) in enumerate(facts["away"]):
        Absence.objects.create(
            organization=row.organization,
            user=people[absent],
            substitute=people[substitute],
            first_day=today - timedelta(days=20 - days),
            last_day=today + timedelta(days=9),
        )


def vote(row: ConfirmationRequest, name: str, clock: Clock) -> str:
    """What ``name`` is told. No two votes come at the same moment: that is their order."""
    clock.advance(microseconds=1)
    try:
        confirmations.decide(
            request_id=row.pk, voter=Voter(user=User.objects.get(username=name)), decision="approve"
        )
    except Problem as problem:
        return problem.code
    return "ok"


def test_votes_and_counts_are_those_of_the_model(world: World, time: Clock) -> None:
    people = {name: make.user(name, world.organization, "member") for name in NAMES}
    group = Group.objects.create(organization=world.organization, slug="treasury")
    group.members.set([world.alice])
    world.set_policy(scope="group", group=group, forbid_self_approval=False)
    asked = world.ask(initiator=None)

    @settings(
        max_examples=1000 if counts.SOAK else 20,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(worlds)
    @example(
        {
            "group": {"anna", "bert"},
            "off": set(),
            "initiator": None,
            "forbid": True,
            "away": [("anna", "dirk"), ("bert", "dirk")],
            "votes": ["dirk", "anna", "bert"],
        }
    )
    def check(facts: dict) -> None:
        with forgotten():
            build(facts, people, group, asked, time)
            row = ConfirmationRequest.objects.select_related("organization", "agent").get(pk=asked.pk)
            stage = row.stages.get()
            assert eligibility.count(row, stage) == most(facts)
            told, sitting = expected(facts)
            assert [vote(row, name, time) for name in facts["votes"]] == told
            counted = set(stage.decisions.filter(counts=True).values_list("user_name", flat=True))
            assert counted == set(sitting.values())
            assert len(counted) <= most(facts)

    check()
