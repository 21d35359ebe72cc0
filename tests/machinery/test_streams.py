"""``GET /agents/{agent}/events`` and ``GET /inbox/events``."""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from hooks_app import confirmations, keys
from hooks_app.governance import halting
from hooks_app.live import reading, streams, waiting
from hooks_app.live.reading import Batch, Question
from hooks_app.models import Agent, ConfirmationRequest, RuntimeKey
from hooks_app.registry import heads
from portal import audit
from portal.lib import clock
from portal.people import tokens
from portal.wakeups import wakeups
from tests import make
from tests.machinery.live import END, Portal, until

Make = Callable[..., ConfirmationRequest]
EVENTS = "/api/v1/agents/procurement/events"
FREE = {"read_only": False, "halted": False, "reason": None, "until": None}


def greet(events: Any) -> list[Any]:
    """The two events on connecting."""
    return [events.next(), events.next()]


def test_connecting_tells_registry_and_state(portal: Portal, world: Any) -> None:
    head = heads.head(world.agent).revision
    assert head
    with portal.events(EVENTS, world.key) as events:
        assert events.response.status_code == 200
        assert events.response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert events.response.headers["Cache-Control"] == "no-store"
        assert greet(events) == [
            ("registry", {"revision": head.number, "digest": head.digest}),
            ("state", FREE),
        ]


def test_a_halt_and_its_end_are_told(portal: Portal, world: Any) -> None:
    with portal.events(EVENTS, world.key) as events:
        greet(events)
        halting.halt(organization=world.acme, agent=world.agent, reason="drill", actor=audit.SHELL)
        assert events.next() == ("state", {**FREE, "halted": True, "reason": "drill"})
        halting.resume(organization=world.acme, agent=world.agent, actor=audit.SHELL)
        assert events.next() == ("state", FREE)
        halting.set_read_only(organization=world.acme, read_only=True, actor=audit.SHELL)
        assert events.next() == ("state", {**FREE, "read_only": True})


def test_a_halt_that_runs_out_is_told_by_nobody_but_the_clock(portal: Portal, world: Any) -> None:
    until_then = clock.now() + timedelta(seconds=1.5)
    with portal.events(EVENTS, world.key) as events:
        greet(events)
        halting.halt(organization=world.acme, reason="drill", until=until_then, actor=audit.SHELL)
        name, data = events.next()
        assert (name, data["halted"], data["until"]) == ("state", True, clock.rfc3339(until_then))
        started = time.monotonic()
        assert events.next() == ("state", FREE)
        assert time.monotonic() - started < 5  # well before the next heartbeat
        assert clock.now() >= until_then


def test_a_new_revision_is_told(portal: Portal, world: Any) -> None:
    with portal.events(EVENTS, world.key) as events:
        (_, before), _ = greet(events)
        make.tool(world.agent, "calculator", writes=False)
        make.publish(world.agent)
        name, after = events.next()
        assert (name, after["revision"]) == ("registry", before["revision"] + 1)
        assert after["digest"] != before["digest"]
        assert heads.was_served(heads.head(world.agent), after["digest"])


def test_a_registry_that_cannot_be_built_has_no_revision(portal: Portal, world: Any) -> None:
    with portal.events(EVENTS, world.key) as events:
        greet(events)
        make.class_hook(world.agent, "no_such_hook")
        make.publish(world.agent)
        assert events.next() == ("registry", {"revision": None, "digest": None})


def test_requests_of_the_agent_are_told(portal: Portal, world: Any, pending: Make) -> None:
    old = pending()
    with portal.events(EVENTS, world.key) as events:
        greet(events)
        theirs, row = pending(agent=world.other), pending()
        confirmations.cancel(request=theirs, actor=audit.SHELL)
        wakeups.publish(f"agent:{world.agent.pk}")
        assert events.next() == ("confirmation", {"id": str(row.pk), "status": "pending"})
        confirmations.cancel(request=row, actor=audit.SHELL)
        assert events.next() == ("confirmation", {"id": str(row.pk), "status": "cancelled"})
        confirmations.cancel(request=old, actor=audit.SHELL)
        assert events.next() == ("confirmation", {"id": str(old.pk), "status": "cancelled"})


def test_a_request_that_runs_out_is_told_before_it_is_swept(
    portal: Portal, world: Any, pending: Make
) -> None:
    row = pending(seconds=1.5)
    with portal.events(EVENTS, world.key) as events:
        greet(events)
        started = time.monotonic()
        assert events.next() == ("confirmation", {"id": str(row.pk), "status": "expired"})
        assert time.monotonic() - started < 5


def test_requests_are_told_to_keys_with_the_scope_alone(portal: Portal, world: Any, pending: Make) -> None:
    scoped = keys.issue(organization=world.acme, agent=world.agent, scopes=["registry"], actor=audit.SHELL)[1]
    with portal.events(EVENTS, scoped) as events:
        greet(events)
        confirmations.cancel(request=pending(), actor=audit.SHELL)
        halting.set_read_only(organization=world.acme, read_only=True, actor=audit.SHELL)
        assert events.next() == ("state", {**FREE, "read_only": True})


def test_a_quiet_stream_says_so(portal: Portal, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert waiting.HEARTBEAT < 15
    monkeypatch.setattr(waiting, "HEARTBEAT", 0.2)
    with portal.events(EVENTS, world.key) as events:
        greet(events)
        started = time.monotonic()
        assert events.frame() == [": quiet"]
        assert events.frame() == [": quiet"]
        assert time.monotonic() - started < 5


def test_a_stream_that_is_woken_for_nothing_says_so_too(
    portal: Portal, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "HEARTBEAT", 0.3)
    with portal.events(EVENTS, world.key) as events:
        greet(events)
        enough = threading.Event()

        def wake() -> None:
            while not enough.wait(0.02):
                wakeups.publish(f"agent:{world.agent.pk}")

        waker = threading.Thread(target=wake)
        waker.start()
        try:
            assert events.frame() == [": quiet"]
            assert events.frame() == [": quiet"]
        finally:
            enough.set()
            waker.join()


def test_a_revoked_key_hears_no_more(portal: Portal, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "TRUST", 0)
    with portal.events(EVENTS, world.key) as events:
        greet(events)
        keys.revoke(RuntimeKey.objects.get(agent=world.agent), actor=audit.SHELL)
        halting.set_read_only(organization=world.acme, read_only=True, actor=audit.SHELL)
        assert events.next() == END


def test_streams_share_their_judgement_with_those_who_say_the_same_alone(
    portal: Portal, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alice's streams with one token, and one with another that is revoked: the view is asked about each, once."""
    monkeypatch.setattr(waiting, "TRUST", 0)
    alice = make.user("alice", world.acme, "admin")
    _, kept = tokens.issue(user=alice, actor=audit.SHELL)
    lost, plain = tokens.issue(user=alice, actor=audit.SHELL)
    with ExitStack() as stack:
        many = [stack.enter_context(portal.events(EVENTS, kept)) for _ in range(8)]
        other = stack.enter_context(portal.events(EVENTS, plain))
        for events in [*many, other]:
            greet(events)
        asked = list[Question]()

        def judge(questions: list[Question]) -> dict[Question, Any]:
            asked.extend(questions)
            return reading.answer(questions)

        monkeypatch.setattr(waiting.application, "_judged", Batch(judge))
        tokens.revoke(lost, actor=audit.SHELL)
        halting.set_read_only(organization=world.acme, read_only=True, actor=audit.SHELL)
        told = {**FREE, "read_only": True}
        assert [events.next() for events in many] == [("state", told)] * 8
        assert other.next() == END
        assert 0 < len(asked) < 9


def test_quiet_streams_have_their_comments_together() -> None:
    """Any two of 100 moments within a tenth of the period share the next beat, which is never late."""
    moments = [5000.0 + number / 100 for number in range(100)]
    assert {waiting._next_beat(moment) for moment in moments} == {5010.0}
    many = [number / 7 for number in range(2000)]
    assert all(0.9 * waiting.HEARTBEAT <= waiting._next_beat(one) - one <= waiting.HEARTBEAT for one in many)


def test_agents_are_read_together(world: Any, pending: Make) -> None:
    """Three statements for all, and each agent has its own registry, state and requests."""
    mine, theirs = pending(), pending(agent=world.other)
    make.publish(world.other)
    halting.halt(organization=world.acme, agent=world.other, reason="drill", actor=audit.SHELL)
    agents = [world.agent, world.other, world.theirs]
    for agent in agents:
        heads.head(agent)
    with CaptureQueriesContext(connection) as statements:
        found = streams.read_agents([agent.pk for agent in agents])
    assert len(statements) == 3
    assert set(found) == {agent.pk for agent in agents}
    for agent in agents:
        revision = heads.head(agent).revision
        assert revision
        assert found[agent.pk].registry == {"revision": revision.number, "digest": revision.digest}
    assert found[world.agent.pk].confirmations == {str(mine.pk): "pending"}
    assert found[world.other.pk].confirmations == {str(theirs.pk): "pending"}
    assert [found[agent.pk].state["halted"] for agent in agents] == [False, True, False]


def test_an_agent_that_is_switched_off_has_no_registry(portal: Portal, world: Any) -> None:
    with portal.events(EVENTS, world.key) as events:
        greet(events)
        Agent.objects.filter(pk=world.agent.pk).update(enabled=False)
        wakeups.publish(f"agent:{world.agent.pk}")
        assert events.next() == ("registry", {"revision": None, "digest": None})


def test_refusals(portal: Portal, world: Any) -> None:
    scoped = keys.issue(organization=world.acme, scopes=["calls"], actor=audit.SHELL)[1]
    for key, at, status, code in [
        ("", EVENTS, 401, "unauthenticated"),
        (scoped, EVENTS, 403, "scope_missing"),
        (world.key, "/api/v1/agents/reports/events", 404, "not_found"),
        (world.key, "/api/v1/agents/nobody/events", 404, "not_found"),
        ("", "/inbox/events", 401, "unauthenticated"),
        (world.key, "/inbox/events", 403, "people_only"),
    ]:
        answer = portal.get(at, key)
        assert (answer.status_code, answer.json()["code"]) == (status, code), at
        assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_caller_holds_so_many_streams(portal: Portal, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting.application, "_quota", waiting.StreamQuota(1))
    with portal.events(EVENTS, world.key) as events:
        greet(events)
        refused = portal.get(EVENTS, world.key)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
        assert int(refused.headers["Retry-After"]) > 0
        with portal.events("/api/v1/agents/reports/events", world.other_key) as other:
            assert len(greet(other)) == 2
    until(lambda: wakeups.waiting() == 0, what="the end of the streams")
    with portal.events(EVENTS, world.key) as events:
        assert len(greet(events)) == 2


def test_a_client_that_goes_away_frees_its_place(portal: Portal, world: Any) -> None:
    with portal.events(EVENTS, world.key) as events:
        greet(events)
        assert wakeups.waiting() == 1
    until(lambda: wakeups.waiting() == 0, what="the end of the subscription")
    assert not waiting.application._quota._taken


def test_an_inbox_hears_of_its_own_organizations(
    portal: Portal, world: Any, pending: Make, client: Client
) -> None:
    client.force_login(world.bob, backend="django.contrib.auth.backends.ModelBackend")
    cookies = {"sessionid": client.cookies["sessionid"].value}
    row = pending()
    with portal.events("/inbox/events", cookies=cookies) as events:
        assert events.frame() == ["retry: 2000"]
        theirs = pending(agent=world.theirs)
        confirmations.cancel(request=theirs, actor=audit.SHELL)
        wakeups.publish(f"inbox:{world.acme.pk}")  # for nothing
        confirmations.cancel(request=row, actor=audit.SHELL)
        assert events.next() == ("inbox", {})
        row = pending()
        wakeups.publish(f"inbox:{world.acme.pk}")
        assert events.next() == ("inbox", {})


def test_a_token_of_somebody_who_was_switched_off_hears_no_more(
    portal: Portal, world: Any, pending: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "TRUST", 0)
    plain = tokens.issue(user=world.bob, actor=audit.SHELL)[1]
    row = pending()
    with portal.events("/inbox/events", plain) as events:
        assert events.frame() == ["retry: 2000"]
        world.bob.is_active = False
        world.bob.save()
        confirmations.cancel(request=row, actor=audit.SHELL)
        assert events.next() == END
