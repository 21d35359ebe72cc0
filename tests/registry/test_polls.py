"""A poll that is confirmed in one statement is one that the view would answer 304, and with the same tag."""

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from hooks_app import keys
from hooks_app.governance import halting
from hooks_app.models import Agent, RegistryHead, RuntimeInstance, RuntimeKey
from hooks_app.registry import heads, polls
from portal import audit
from portal.lib import clock
from portal.lib.problems import Problem
from portal.models import Organization, User
from tests import make
from tests.conftest import Clock

pytestmark = pytest.mark.django_db

NOBODY = "hg_" + "x" * 32


@pytest.fixture
def world() -> Any:
    """acme with two agents, a key of the organization, one of each agent, and one that alice made; beta likewise."""
    acme, beta = make.organization("acme"), make.organization("beta")
    agent, other, theirs = make.agent(acme), make.agent(acme, "reports"), make.agent(beta)
    for row in (agent, other, theirs):
        heads.head(row)
    alice = make.user("alice", acme, "admin")
    return SimpleNamespace(
        acme=acme,
        agent=agent,
        alice=alice,
        key=make.key(acme),
        own=make.key(acme, agent),
        others=make.key(acme, other),
        theirs=make.key(beta),
        narrow=make.key(acme, scopes=["calls"]),
        alices=keys.issue(organization=acme, created_by=alice, actor=audit.SHELL)[1],
        short=make.key(acme, expires_at=clock.now() + timedelta(minutes=1)),
    )


def ask(world: Any, **changes: Any) -> polls.Poll:
    held = changes.pop("held", None) or heads.etag(world.agent, changes.get("surface", "chat"))
    facts = {"key": world.key, "agent": world.agent.slug, "surface": "chat", "runtime": "worker-1"}
    return polls.Poll(**{**facts, **changes}, held=frozenset([held]))


def view(poll: polls.Poll) -> str | None:
    """The tag with which the view says "unchanged", if it does."""
    answer = Client().get(
        f"/api/v1/agents/{poll.agent}/registry",
        query_params={"surface": poll.surface},
        headers={
            "Authorization": f"Bearer {poll.key}",
            "If-None-Match": ", ".join(poll.held),
            "Hookgate-Runtime": poll.runtime,
        },
    )
    return answer.headers["ETag"] if answer.status_code == 304 else None


UNCHANGED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "the organization's key": lambda world: {},
    "the agent's own key": lambda world: {"key": world.own},
    "a key that somebody made": lambda world: {"key": world.alices},
    "a key that ends later": lambda world: {"key": world.short},
    "another surface": lambda world: {"surface": "workflow"},
    "by its id": lambda world: {"agent": str(world.agent.pk)},
}


@pytest.mark.parametrize("named", UNCHANGED)
def test_what_is_plainly_unchanged_is_confirmed(world: Any, named: str) -> None:
    poll = ask(world, **UNCHANGED[named](world))
    assert polls.confirm(poll) == view(poll) == next(iter(poll.held))


def _switch(world: Any, **columns: Any) -> None:
    Organization.objects.filter(pk=world.acme.pk).update(**columns)


STATES: dict[str, dict[str, Any]] = {
    "read only": {"read_only": True},
    "halted": {"halted": True, "halt_reason": "audit"},
    "halted until": {"halted": True, "halt_reason": "audit", "halt_until": timedelta(hours=1)},
    "a halt that is over": {"halted": True, "halt_reason": "audit", "halt_until": -timedelta(hours=1)},
}


@pytest.mark.parametrize("named", STATES)
@pytest.mark.parametrize("whose", [Organization, Agent])
def test_switches_are_part_of_what_is_confirmed(world: Any, named: str, whose: Any) -> None:
    before = ask(world)
    columns = {k: clock.now() + v if isinstance(v, timedelta) else v for k, v in STATES[named].items()}
    if whose is Agent and "read_only" in columns:
        columns = {"halted": True}
    whose.objects.update(**columns)
    after = ask(world)
    assert polls.confirm(after) == view(after) == next(iter(after.held))
    assert polls.confirm(before) == view(before)
    assert (before == after) == (named == "a halt that is over")


def _revoke(world: Any) -> None:
    for key in RuntimeKey.objects.all():
        keys.revoke(key, actor=audit.SHELL)


def _break(world: Any) -> None:
    make.class_hook(world.agent, "no_such_hook")
    make.publish(world.agent)
    with pytest.raises(Problem):
        heads.serve(world.agent, "chat")


# What somebody does after the registry was served, and with what the runtime then asks.
REFUSED: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "an unknown key": (lambda world: None, {"key": NOBODY}),
    "a revoked key": (_revoke, {}),
    "a key that has ended": (lambda world: RuntimeKey.objects.update(expires_at=clock.now()), {}),
    "a key whose maker left": (lambda world: User.objects.update(is_active=False), {"key": "alices"}),
    "a key without the scope": (lambda world: None, {"key": "narrow"}),
    "another agent's key": (lambda world: None, {"key": "others"}),
    "another organization's key": (lambda world: None, {"key": "theirs"}),
    "no such agent": (lambda world: None, {"agent": "no-such"}),
    "an id in other letters": (lambda world: None, {"agent": "hex"}),
    "an agent that is switched off": (lambda world: Agent.objects.update(enabled=False), {}),
    "a registry that can't be built": (_break, {}),
    "an agent that was never published": (lambda world: RegistryHead.objects.all().delete(), {}),
    "another tag": (lambda world: None, {"held": '"other"'}),
}


@pytest.mark.parametrize("named", REFUSED)
def test_nobody_is_confirmed_whom_the_view_would_not_tell(world: Any, named: str) -> None:
    happens, changes = REFUSED[named]
    if changes.get("agent") == "hex":
        changes = {"agent": world.agent.pk.hex}
    poll = ask(world, **{**changes, "key": getattr(world, changes.get("key", "key"), NOBODY)})
    happens(world)
    assert polls.confirm(poll) is None
    assert view(poll) is None


def test_what_is_out_of_date_is_left_to_the_view(world: Any) -> None:
    poll = ask(world)
    heads.inputs_changed(world.acme)
    assert polls.confirm(poll) is None
    assert view(poll) is not None  # built anew, and the same
    assert polls.confirm(poll) is not None
    make.class_hook(world.agent, "result_truncate")
    make.publish(world.agent)
    assert polls.confirm(poll) is None
    assert view(poll) is None


def test_a_halt_ends_by_itself(world: Any, time: Clock) -> None:
    before = ask(world)
    until = time.moment + timedelta(seconds=90)
    halting.halt(organization=world.acme, agent=world.agent, reason="audit", until=until, actor=audit.SHELL)
    halted = ask(world)
    assert polls.confirm(before) is None
    assert polls.confirm(halted) is not None
    time.advance(seconds=90)
    assert polls.confirm(halted) is None
    assert polls.confirm(before) is not None


def test_who_asks_is_noted_to_the_minute(world: Any, time: Clock) -> None:
    time.moment = time.moment.replace(second=10)
    for name in ("worker-1", "worker-2"):
        polls.confirm(ask(world, runtime=name))
    minute = time.moment.replace(second=0, microsecond=0)
    rows = RuntimeInstance.objects.order_by("name").values_list("name", "surface", "revision", "last_seen_at")
    assert list(rows) == [("worker-1", "chat", 1, minute), ("worker-2", "chat", 1, minute)]
    time.advance(seconds=60)
    polls.confirm(ask(world, surface="dag"))
    row = RuntimeInstance.objects.get(name="worker-1")
    assert (row.surface, row.last_seen_at) == ("dag", minute + timedelta(minutes=1))
    assert RuntimeInstance.objects.get(name="worker-2").last_seen_at == minute
    used = RuntimeKey.objects.exclude(last_used_at=None).values_list("last_used_at", flat=True)
    assert list(used) == [minute + timedelta(minutes=1)]
    # Who is not told "unchanged" is the view's to note.
    polls.confirm(ask(world, runtime="worker-3", held='"other"'))
    assert not RuntimeInstance.objects.filter(name="worker-3").exists()
