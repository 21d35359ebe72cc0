"""What decides whether an approval will matter is said before the buttons; nothing that is folded is approved."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.test import Client

from hooks_app.governance import halting
from hooks_app.inbox import folding
from hooks_app.models import Agent, ConfirmationRequest, ConnectorCallLog
from portal import audit
from portal.admin import showing
from portal.models import Organization, User
from tests.confirmations.world import World, state
from tests.conftest import Clock
from tests.inbox.pages import buttons
from tests.inbox.test_deciding import decide

SignIn = Callable[[User], Client]
LONG = {"items": [f"item {number}" for number in range(300)]}


def halt(world: World) -> None:
    halting.halt(organization=world.organization, agent=world.agent, reason="an audit", actor=audit.SHELL)


def switch_off(world: World) -> None:
    Agent.objects.filter(pk=world.agent.pk).update(enabled=False)


def make_read_only(world: World) -> None:
    Organization.objects.filter(pk=world.organization.pk).update(read_only=True)


OBSTACLES = [
    (halt, "The agent is halted (an audit): what you approve does not run"),
    (switch_off, "The agent is switched off: what you approve does not run"),
    (make_read_only, "The organization is read-only: what you approve does not run"),
]


@pytest.mark.parametrize(("happens", "told"), OBSTACLES, ids=["halted", "off", "read-only"])
def test_what_keeps_an_approval_from_mattering_is_said_first_and_last(
    world: World, sign_in: SignIn, happens: Callable[[World], None], told: str
) -> None:
    row = world.ask()
    bob = sign_in(world.bob)
    for page in (f"/inbox/{row.pk}/", "/inbox/"):
        assert told not in bob.get(page).content.decode()
    happens(world)
    page = bob.get(f"/inbox/{row.pk}/").content.decode()
    assert page.index(told) < page.index('value="approve"')
    assert told in bob.get("/inbox/").content.decode()
    answer = decide(bob, row, "approve", follow=True).content.decode()
    assert state(row) == "approved"
    assert told in answer
    assert "may now run this call" not in answer


def test_read_only_is_nothing_to_a_tool_that_only_reads(world: World, sign_in: SignIn) -> None:
    world.set_agent(require_confirmation_for_all=True)
    row = world.ask(tool_name="oa__purchase_read")
    make_read_only(world)
    assert "read-only" not in sign_in(world.bob).get(f"/inbox/{row.pk}/").content.decode()


def test_long_arguments_are_folded_and_approved_only_whole(world: World, sign_in: SignIn) -> None:
    row = world.ask(tool_args=LONG)
    bob = sign_in(world.bob)
    page = bob.get(f"/inbox/{row.pk}/").content.decode()
    assert "264 more lines" in page
    assert "item 299" not in page
    assert buttons(page) == ["reject"]
    whole = bob.get(f"/inbox/{row.pk}/?all").content.decode()
    assert "more lines" not in whole
    assert "item 299" in whole
    assert buttons(whole) == ["approve", "reject"]


def test_short_arguments_are_not_folded(world: World, sign_in: SignIn) -> None:
    row = world.ask(tool_args={"items": list(range(50))})
    assert buttons(sign_in(world.bob).get(f"/inbox/{row.pk}/").content.decode()) == ["approve", "reject"]


@pytest.mark.parametrize(
    ("text", "shown", "more"),
    [
        ("a", "a", 0),
        ("\n".join("x" * 60), "\n".join("x" * 60), 0),
        ("\n".join("x" * 61), "\n".join("x" * 40), 21),
        ("y" * 6_100, f"{'y' * 4_000} …", 21),
        ("a\n" + "y" * 10_000, "a", 100),
        ("", "", 0),
    ],
)
def test_what_is_folded_is_counted_as_it_is_drawn(text: str, shown: str, more: int) -> None:
    assert folding.fold(text) == folding.Folded(shown, more)


def test_how_long_is_left_goes_with_the_buttons(world: World, time: Clock, sign_in: SignIn) -> None:
    row = world.ask()
    time.advance(seconds=20)
    page = sign_in(world.bob).get(f"/inbox/{row.pk}/").content.decode()
    assert 'data-until="100"' in page


def test_a_call_that_its_runtime_has_left_is_explained_on_both_sides(
    world: World, time: Clock, sign_in: SignIn
) -> None:
    row = world.ask()
    entry = ConnectorCallLog.objects.create(
        id=uuid4(), organization=world.organization, agent=world.agent, agent_slug="procurement", surface="chat",
        tool_name=row.tool_name, status="cancelled", started_at=time.moment, received_at=time.moment,
        confirmation_id=row.pk, duration_ms=159_080.8,
    )  # fmt: skip
    assert "The request still waits" in sign_in(world.bob).get(f"/inbox/{row.pk}/").content.decode()
    alice = sign_in(world.alice)
    call = alice.get(f"/admin/hooks_app/connectorcalllog/{entry.pk}/change/").content.decode()
    assert "its request still waits for people" in call
    assert f"/admin/hooks_app/confirmationrequest/{row.pk}/change/" in call
    assert "2 min 39 s" in call
    assert (
        str(entry.pk) in alice.get(f"/admin/hooks_app/confirmationrequest/{row.pk}/change/").content.decode()
    )
    ConfirmationRequest.objects.filter(pk=row.pk).update(expires_at=time.moment + timedelta(seconds=1))
    time.advance(seconds=2)
    assert (
        "still waits"
        not in alice.get(f"/admin/hooks_app/connectorcalllog/{entry.pk}/change/").content.decode()
    )


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (None, "–"),
        (0.04, "0.0 ms"),
        (159.08, "159.1 ms"),
        (1_200, "1.2 s"),
        (159_080.8, "2 min 39 s"),
        (11_100_000, "3 h 5 min"),
    ],
)
def test_a_duration_is_told_in_words(milliseconds: float | None, words: str) -> None:
    assert showing.duration(milliseconds) == words
