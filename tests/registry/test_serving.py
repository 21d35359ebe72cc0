"""Revisions, ETags, switches: what holds now, and what was held."""

import json
from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hooks_app.governance import halting
from hooks_app.models import Action, Agent, RegistryHead, RegistryRevision, RuntimeInstance
from hooks_app.registry import heads, publishing, runtimes
from portal import audit
from portal.lib.problems import Problem
from portal.models import Organization
from tests import make
from tests.conftest import Clock

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> Organization:
    return make.organization("acme")


@pytest.fixture
def agent(acme: Organization) -> Agent:
    make.connector(acme, "oa", pay={"requires_confirmation": True})
    return make.agent(acme)


def body(agent: Agent, surface: str = "chat") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(heads.serve(agent, surface).body)
    return found


def numbers(agent: Agent) -> list[int]:
    return list(agent.revisions.order_by("number").values_list("number", flat=True))


def test_an_unchanged_registry_is_one_revision_whoever_asks(agent: Agent) -> None:
    first = heads.serve(agent, "chat")
    make.publish(agent)
    heads.inputs_changed(agent.organization)
    make.policy(agent.organization, "unused")
    assert heads.serve(agent, "chat") == first
    assert numbers(agent) == [1]
    assert (
        first.body
        == json.dumps(
            json.loads(first.body), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ).encode()
    )


def test_a_shared_change_makes_a_revision_of_every_agent_that_it_touches(agent: Agent) -> None:
    before = heads.serve(agent, "chat")
    Action.objects.update(requires_confirmation=False)
    assert heads.serve(agent, "chat") == before  # not announced, not looked at
    heads.inputs_changed(agent.organization)
    after = heads.serve(agent, "chat")
    assert after.revision == 2
    assert body(agent)["tools"][0]["requires_confirmation"] is False
    newest = agent.revisions.get(number=2)
    assert (newest.digest, newest.author_name) == (after.digest, "")


def test_a_change_holds_only_once_it_is_published(agent: Agent) -> None:
    before = heads.serve(agent, "chat")
    make.class_hook(agent, "session_context")
    assert publishing.is_dirty(agent)
    heads.inputs_changed(agent.organization)
    assert heads.serve(agent, "chat") == before
    bob = make.user("bob", agent.organization)
    publishing.publish(agent=agent, actor=audit.person(bob), user=bob, comment="Greet people")
    assert not publishing.is_dirty(agent)
    after = heads.serve(agent, "chat")
    revision = agent.revisions.get(number=2)
    assert (after.revision, revision.author_name, revision.comment) == (2, "bob", "Greet people")
    event = agent.organization.audit_events.filter(action="agent.published").first()
    assert event is not None
    assert (event.actor_name, event.data["comment"]) == ("bob", "Greet people")


def test_rows_that_were_written_again_are_no_change(agent: Agent) -> None:
    make.class_hook(agent, "session_context")
    make.publish(agent)
    before = heads.serve(agent, "chat")
    agent.declarations.all().delete()
    make.class_hook(agent, "session_context")
    assert not publishing.is_dirty(agent)
    make.publish(agent)
    assert heads.serve(agent, "chat") == before


def test_a_rollback_is_a_new_revision_with_an_old_digest(agent: Agent) -> None:
    first = heads.serve(agent, "chat")
    agent.require_confirmation_for_all = True
    agent.save()
    make.publish(agent)
    second = heads.serve(agent, "chat")
    publishing.rollback(agent=agent, number=1, actor=audit.SHELL)
    third = heads.serve(agent, "chat")
    assert (first.revision, second.revision, third.revision) == (1, 2, 3)
    assert third.digest == first.digest != second.digest
    assert len({first.etag, second.etag, third.etag}) == 3
    assert agent.revisions.get(number=3).comment == "Rollback to revision 1"
    assert publishing.is_dirty(agent)  # the draft is still the newer one
    with pytest.raises(Problem) as caught:
        publishing.rollback(agent=agent, number=9, actor=audit.SHELL)
    assert caught.value.status == 404


def test_a_protected_agent_keeps_what_it_has(agent: Agent) -> None:
    first = heads.serve(agent, "chat")
    agent.protected = True
    agent.save()
    make.class_hook(agent, "session_context")
    for ask in (make.publish, lambda agent: publishing.rollback(agent=agent, number=1, actor=audit.SHELL)):
        with pytest.raises(Problem) as caught:
            ask(agent)
        assert (caught.value.status, caught.value.code) == (409, "not_available")
    assert publishing.is_dirty(agent)
    assert heads.serve(agent, "chat") == first


def test_a_digest_counts_once_it_was_served(acme: Organization, agent: Agent) -> None:
    other = make.agent(acme, "other")
    digest = heads.serve(agent, "chat").digest
    agent.unlisted_tools = "deny"
    agent.save()
    make.publish(agent)
    assert heads.serve(agent, "chat").digest != digest
    assert heads.was_served(heads.head(agent), digest)
    assert not heads.was_served(heads.head(other), digest)
    assert not heads.was_served(heads.head(agent), heads.serve(agent, "eval").digest)


def test_the_etag_is_strong_and_moves_with_every_byte(agent: Agent, time: Clock) -> None:
    acme = agent.organization
    seen: dict[str, bytes] = {}

    def look(surface: str = "chat") -> None:
        served = heads.serve(agent, surface)
        assert served.etag == heads.etag(agent, surface)
        assert served.etag.startswith('"')
        assert served.etag.endswith('"')
        assert seen.setdefault(served.etag, served.body) == served.body

    for surface in ("chat", "api", "dag", "subagent", "workflow", "eval"):
        look(surface)
    assert len(seen) == 6
    halting.set_read_only(organization=acme, read_only=True, actor=audit.SHELL)
    look()
    assert len(seen) == 7
    halting.halt(organization=acme, reason="drill", actor=audit.SHELL)
    look()
    halting.halt(organization=acme, reason="another drill", actor=audit.SHELL)
    look()
    halting.halt(
        organization=acme, reason="another drill", until=time.moment + timedelta(hours=1), actor=audit.SHELL
    )
    look()
    assert len(seen) == 10
    time.advance(hours=1)  # nobody does anything, the halt is over
    look()
    assert len(seen) == 10  # and the body is that of read-only alone again
    halting.set_read_only(organization=acme, read_only=False, actor=audit.SHELL)
    look()
    assert len(seen) == 10
    assert len(set(seen.values())) == 10


def test_an_unchanged_etag_costs_one_query(agent: Agent) -> None:
    heads.etag(agent, "chat")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        heads.etag(agent, "chat")
    assert len(queries) == 1
    with CaptureQueriesContext(connection) as queries:
        heads.serve(agent, "chat")
    assert len(queries) == 2


def test_what_can_not_be_built_is_refused_until_it_is_repaired(agent: Agent) -> None:
    first = heads.serve(agent, "chat")
    bad = make.class_hook(agent, "nonsense")
    make.publish(agent)
    for ask in (heads.serve, heads.etag):
        with pytest.raises(Problem) as caught:
            ask(agent, "chat")
        assert caught.value.status == 422
        assert [(error.path, error.code) for error in caught.value.errors] == [
            ("hooks.class_hooks[0].name", "unknown_hook")
        ]
    with pytest.raises(Problem):
        heads.published(agent)
    bad.delete()
    make.publish(agent)
    assert heads.serve(agent, "chat") == first
    assert numbers(agent) == [1]


def test_an_agent_that_was_never_published_has_no_registry(acme: Organization) -> None:
    agent = make.agent(acme, "new", published=False)
    assert publishing.is_dirty(agent)
    with pytest.raises(Problem) as caught:
        heads.serve(agent, "chat")
    assert [error.code for error in caught.value.errors] == ["not_published"]


def test_a_switched_off_agent_is_refused_its_registry_but_keeps_its_rules(agent: Agent) -> None:
    heads.serve(agent, "chat")
    Agent.objects.filter(pk=agent.pk).update(enabled=False)
    for ask in (heads.serve, heads.etag):
        with pytest.raises(Problem) as caught:
            ask(agent, "chat")
        assert (caught.value.status, caught.value.errors[0].code) == (422, "agent_disabled")
    assert heads.published(agent).mode == "auto"


def test_the_state_is_the_organizations_and_the_agents(agent: Agent, time: Clock) -> None:
    acme = agent.organization
    assert heads.state(agent) == {"read_only": False, "halted": False, "reason": None, "until": None}
    soon, later = time.moment + timedelta(minutes=5), time.moment + timedelta(minutes=9)
    halting.halt(organization=acme, agent=agent, reason="odd payments", until=later, actor=audit.SHELL)
    ends = later.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    assert heads.state(agent) == {
        "read_only": False,
        "halted": True,
        "reason": "odd payments",
        "until": ends,
    }
    assert body(agent)["state"] == heads.state(agent)
    assert body(agent, "eval")["state"] == heads.state(agent)
    halting.halt(organization=acme, reason="everybody out", until=soon, actor=audit.SHELL)
    assert heads.state(agent) == {
        "read_only": False,
        "halted": True,
        "reason": "everybody out",
        "until": ends,
    }
    time.advance(minutes=5)
    assert heads.state(agent)["reason"] == "odd payments"
    time.advance(minutes=4)
    assert heads.state(agent)["halted"] is False
    halting.halt(organization=acme, reason="for good", actor=audit.SHELL)
    assert heads.state(agent) == {"read_only": False, "halted": True, "reason": "for good", "until": None}
    assert halting.resume(organization=acme, actor=audit.SHELL) is True
    assert halting.resume(organization=acme, actor=audit.SHELL) is False
    assert heads.state(agent)["halted"] is False


@pytest.mark.parametrize(
    ("reason", "minutes", "path"), [("  ", None, "reason"), ("x" * 501, None, "reason"), ("x", 0, "until")]
)
def test_a_halt_says_why_and_ends_later(
    acme: Organization, time: Clock, reason: str, minutes: int | None, path: str
) -> None:
    until = None if minutes is None else time.moment + timedelta(minutes=minutes)
    with pytest.raises(Problem) as caught:
        halting.halt(organization=acme, reason=reason, until=until, actor=audit.SHELL)
    assert (caught.value.status, caught.value.errors[0].path) == (400, path)
    acme.refresh_from_db()
    assert acme.halted is False


def test_switches_and_shared_changes_wake_whoever_waits(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    woken: list[str] = []
    monkeypatch.setattr("portal.wakeups.wakeups.publish", lambda *topics: woken.extend(topics))
    acme = agent.organization
    with django_capture_on_commit_callbacks(execute=True):
        halting.halt(organization=acme, agent=agent, reason="x", actor=audit.SHELL)
        halting.resume(organization=acme, agent=agent, actor=audit.SHELL)
        halting.set_read_only(organization=acme, read_only=True, actor=audit.SHELL)
        heads.inputs_changed(acme)
        make.class_hook(agent, "session_context")
        make.publish(agent)
        assert woken == []
    assert woken == [
        f"agent:{agent.pk}",
        f"agent:{agent.pk}",
        f"organization:{acme.pk}",
        f"organization:{acme.pk}",
        f"agent:{agent.pk}",
    ]
    assert list(acme.audit_events.values_list("action", flat=True).order_by("sequence")) == [
        "agent.published",
        "agent.halted",
        "agent.resumed",
        "organization.read_only",
        "agent.published",
    ]


def test_a_runtime_is_noted_to_the_minute(agent: Agent, time: Clock) -> None:
    time.moment = time.moment.replace(second=10)
    runtimes.record(agent, "worker-1", "chat", 1)
    time.advance(seconds=40)
    with CaptureQueriesContext(connection) as queries:
        runtimes.record(agent, "worker-1", "chat", 1)
    assert len(queries) == 1  # looked, not written
    row = RuntimeInstance.objects.get()
    assert (row.name, row.surface, row.revision, row.last_seen_at) == (
        "worker-1",
        "chat",
        1,
        time.moment.replace(second=0),
    )
    runtimes.record(agent, "worker-1", "chat", 2)
    time.advance(minutes=1)
    runtimes.record(agent, "worker-1", "chat", 2)
    row.refresh_from_db()
    assert (row.revision, row.last_seen_at) == (2, time.moment.replace(second=0))
    runtimes.report_tools(agent, "worker-1", [{"name": "oa__pay"}])
    row.refresh_from_db()
    assert (row.revision, row.last_seen_at, row.tools) == (
        2,
        time.moment.replace(second=0),
        [{"name": "oa__pay"}],
    )


@pytest.mark.django_db(transaction=True)
def test_one_reader_builds_and_all_get_the_same(agent: Agent) -> None:
    served: list[heads.Served] = []
    start = Barrier(8)

    def read() -> None:
        try:
            start.wait(timeout=10)
            served.append(heads.serve(agent, "chat"))
        finally:
            connection.close()

    for number in range(1, 4):
        Action.objects.update(redact=[f"field{number}"])
        heads.inputs_changed(agent.organization)
        served.clear()
        threads = [Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert len(served) == 8
        assert {one.revision for one in served} == {number}
        assert len({one.body for one in served}) == 1
        assert RegistryRevision.objects.filter(agent=agent).count() == number
    assert RegistryHead.objects.get(agent=agent).errors == []
