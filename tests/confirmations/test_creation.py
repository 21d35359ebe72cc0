"""Asking for a confirmation: what is kept, what is refused, and that asking twice asks once."""

from datetime import timedelta
from typing import Any

import pytest
from hookgate import canonical

from channels_app.models import Delivery
from hooks_app import confirmations, digests
from hooks_app.confirmations import Initiator, NewRequest
from hooks_app.governance import halting
from hooks_app.models import Agent, ConfirmationRequest
from portal import audit
from portal.lib.problems import Problem
from portal.models import AuditEvent, Organization
from tests import make
from tests.confirmations.conftest import refused
from tests.confirmations.world import ARGS, World
from tests.conftest import Clock

# What a new request has nothing to say about yet.
UNTOUCHED: dict[str, Any] = {
    "status": "pending",
    "approved_args": None,
    "stage": None,
    "decisions": [],
    "ended_at": None,
    "reason": None,
    "refused_by": None,
    "grant": None,
    "start_by": None,
    "consumed_at": None,
    "outcome": None,
    "outcome_detail": None,
    "outcome_at": None,
}


def test_the_resource_is_the_contracts(world: World, time: Clock) -> None:
    row = world.ask(tool_call_id="call_01", summary="Pay the invoice")
    digest = canonical.digest(ARGS)
    assert confirmations.represent(row, people=False) == {
        **UNTOUCHED,
        "id": str(row.pk),
        "agent": "procurement",
        "conversation_id": "c7",
        "tool_call_id": "call_01",
        "tool_name": "oa__purchase_pay",
        "tool_args": {"amount": 60000, "payee": "Initech", "card_number": "[redacted]"},
        "requested_digest": digest,
        "args_digest": digest,
        "args_tag": digests.tag(row.organization_id, digest),
        "excerpt": '{"amount":60000,"card_number":"[redacted]","payee":"Initech"}',
        "hook": "approval_gate",
        "initiator": {"id": "u42", "name": "Kim", "email": "kim@elsewhere.test"},
        "initiator_matched": False,
        "summary": "Pay the invoice",
        "mode": "auto",
        "policy": {"slug": "payments", "scope": "approvers", "quorum": 1},
        "created_at": time.moment.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "expires_at": (time.moment + timedelta(seconds=120)).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "deliveries": [
            {
                "channel": "ops-feishu",
                "recipient": "oc_1",
                "status": "queued",
                "attempts": 0,
                "last_error": None,
            }
        ],
        "url": f"http://127.0.0.1:8000/inbox/{row.pk}/",
    }


def test_arguments_are_not_stored_in_clear(world: World) -> None:
    row = world.ask(tool_args={"secret_plan": "mark-of-the-test"})
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT args FROM hooks_app_confirmationrequest")
        stored = [value for (value,) in cursor.fetchall()]
    assert len(stored) == 1
    assert "mark-of-the-test" not in stored[0]
    assert ConfirmationRequest.objects.get(pk=row.pk).args == {"secret_plan": "mark-of-the-test"}


def test_the_same_call_attaches_to_the_same_request(world: World) -> None:
    proposal = world.proposal()
    first, is_new = confirmations.create(agent=world.agent, runtime="worker-1", request=proposal)
    again, is_new_again = confirmations.create(agent=world.agent, runtime="worker-2", request=proposal)
    assert (is_new, is_new_again) == (True, False)
    assert again.pk == first.pk
    assert again.runtime == "worker-1"
    assert Delivery.objects.count() == 1


def test_attaching_needs_nothing_but_the_same_call(world: World) -> None:
    """A restarted runtime may hold a newer registry, and a halt in between changes nothing about what was asked."""
    first = world.ask(tool_call_id="call_01")
    world.approve(first, world.bob)
    halting.halt(organization=world.organization, reason="drill", actor=audit.SHELL)
    again, is_new = confirmations.create(
        agent=world.agent,
        runtime="",
        request=world.proposal(tool_call_id="call_01", registry_digest="sha256:" + "0" * 64),
    )
    assert (again.pk, is_new, again.status) == (first.pk, False, "approved")


@pytest.mark.parametrize(
    "difference",
    [
        {"tool_name": "oa__purchase_read"},
        {"tool_args": {**ARGS, "amount": 60001}},
        {"initiator": Initiator(id="u43", name="Kim", email="kim@elsewhere.test")},
        {"initiator": None},
    ],
)
def test_another_call_under_the_same_id_is_a_conflict(world: World, difference: dict[str, Any]) -> None:
    world.ask(tool_call_id="call_01")
    with refused(409, "tool_call_conflict"):
        world.ask(tool_call_id="call_01", **difference)
    assert ConfirmationRequest.objects.count() == 1


def test_the_same_id_in_another_conversation_or_agent_is_another_call(world: World) -> None:
    other = make.agent(world.organization, "researcher")
    world.ask(tool_call_id="call_01")
    world.ask(tool_call_id="call_01", conversation_id="c8")
    digest = World.digest(World(**{**world.__dict__, "agent": other}))
    confirmations.create(
        agent=other, runtime="", request=world.proposal(tool_call_id="call_01", registry_digest=digest)
    )
    assert ConfirmationRequest.objects.count() == 3


def test_numbers_that_are_equal_in_canonical_json_are_the_same_arguments(world: World) -> None:
    first = world.ask(tool_call_id="call_01", tool_args={"b": 1.0, "a": "é"})
    again, is_new = confirmations.create(
        agent=world.agent,
        runtime="",
        request=world.proposal(tool_call_id="call_01", tool_args={"a": "é", "b": 1}),
    )
    assert (again.pk, is_new) == (first.pk, False)


def test_switches_refuse(world: World) -> None:
    Agent.objects.filter(pk=world.agent.pk).update(enabled=False)
    with refused(409, "agent_disabled"):
        world.ask()
    Agent.objects.filter(pk=world.agent.pk).update(enabled=True)
    halting.halt(organization=world.organization, agent=world.agent, reason="drill", actor=audit.SHELL)
    with refused(409, "halted"):
        world.ask()
    halting.resume(organization=world.organization, agent=world.agent, actor=audit.SHELL)
    halting.halt(organization=world.organization, reason="drill", actor=audit.SHELL)
    with refused(409, "halted"):
        world.ask()
    assert ConfirmationRequest.objects.count() == 0


def test_read_only_refuses_what_writes_and_nothing_else(world: World) -> None:
    Organization.objects.update(read_only=True)
    with refused(409, "read_only"):
        world.ask()
    with refused(409, "read_only"):
        world.ask(tool_name="nobody__lists_this")
    assert world.ask(tool_name="oa__purchase_read").status == "pending"


def test_a_registry_that_was_never_served_is_refused(world: World) -> None:
    other = make.agent(world.organization, "researcher", unlisted_tools="deny")
    foreign = World.digest(World(**{**world.__dict__, "agent": other}))
    for digest in ("sha256:" + "0" * 64, foreign):
        with refused(422, "unknown_registry"):
            world.ask(registry_digest=digest)


def test_an_older_registry_that_was_served_is_accepted(world: World) -> None:
    old = world.digest()
    world.set_agent(max_pending=7)
    assert world.digest() != old
    assert world.ask(registry_digest=old).registry_digest == old


def test_a_registry_that_cannot_be_built_is_refused(world: World) -> None:
    digest = world.digest()
    make.class_hook(world.agent, "no_such_hook")
    make.publish(world.agent)
    with refused(422, "registry_unbuildable"):
        world.ask(registry_digest=digest)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"conversation_id": ""}, "conversation_id"),
        ({"tool_call_id": "x" * 8193}, "tool_call_id"),
        ({"tool_name": "a\x00b"}, "tool_name"),
        ({"hook": "\ud800"}, "hook"),
        ({"summary": "x" * 2001}, "summary"),
        ({"initiator": Initiator(id="")}, "initiator.id"),
        ({"initiator": Initiator(id="u", email="x" * 255)}, "initiator.email"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": True}, "timeout_seconds"),
        ({"tool_args": [1]}, "tool_args"),
        ({"policy": "payments"}, "policy"),
        ({"channel": "lunch"}, "channel"),
    ],
)
def test_bad_fields_are_named(world: World, fields: dict[str, Any], path: str) -> None:
    with pytest.raises(Problem) as caught:
        world.ask(**fields)
    assert (caught.value.status, caught.value.code) == (400, "invalid")
    assert [error.path for error in caught.value.errors] == [path]


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"a": {"b": [1, float("nan")]}}, "tool_args.a.b[1]"),
        ({"n": 2**53}, "tool_args.n"),
        ({"t": "\ud800"}, "tool_args.t"),
        ({"t": "a\x00"}, "tool_args.t"),
    ],
)
def test_arguments_without_a_canonical_form_are_named(world: World, args: dict[str, Any], path: str) -> None:
    with pytest.raises(Problem) as caught:
        world.ask(tool_args=args)
    assert (caught.value.status, caught.value.code) == (400, "args_not_canonical")
    assert [error.path for error in caught.value.errors] == [path]


def test_arguments_end_at_256_kib_of_canonical_json(world: World) -> None:
    most = {"t": "x" * (256 * 1024 - len('{"t":""}'))}
    assert world.ask(tool_args=most).status == "pending"
    with refused(413, "too_large"):
        world.ask(tool_args={"t": most["t"] + "x"})


def test_a_timeout_shortens_and_never_lengthens(world: World) -> None:
    row = world.ask(timeout_seconds=60)
    assert row.expires_at - row.created_at == timedelta(seconds=60)
    row = world.ask(timeout_seconds=86400)
    assert row.expires_at - row.created_at == timedelta(seconds=120)


def test_too_many_pending(world: World, time: Clock) -> None:
    world.set_agent(max_pending=2)
    first = world.ask(timeout_seconds=10)
    world.ask()
    with pytest.raises(Problem) as caught:
        world.ask()
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (429, "too_many_pending", 10)
    # One that is attached to makes nothing longer.
    assert confirmations.create(
        agent=world.agent, runtime="", request=world.proposal(tool_call_id=first.tool_call_id)
    ) == (first, False)
    # What has run out of time waits for nobody, swept or not.
    time.advance(seconds=10)
    assert world.ask().status == "pending"


def test_a_parent_is_a_request_in_reach(world: World) -> None:
    import uuid

    parent = world.ask()
    assert world.ask(parent=parent.pk).parent == parent
    with pytest.raises(Problem) as caught:
        world.ask(parent=uuid.uuid4())
    assert [error.path for error in caught.value.errors] == ["parent"]
    helper = make.agent(world.organization, "researcher", approval_policy="payments")
    proposal = NewRequest(
        conversation_id="c7",
        tool_call_id="call_01",
        tool_name="oa__purchase_pay",
        tool_args={},
        registry_digest=World.digest(World(**{**world.__dict__, "agent": helper})),
        parent=parent.pk,
    )
    with refused(400, "invalid"):
        confirmations.create(agent=helper, runtime="", request=proposal)
    reach = ConfirmationRequest.objects.filter(organization=world.organization)
    made, _ = confirmations.create(agent=helper, runtime="", request=proposal, reach=reach)
    assert made.parent == parent


def test_asking_is_audited_without_arguments(world: World) -> None:
    row = world.ask()
    event = AuditEvent.objects.get(action="confirmation.created")
    assert (event.actor_kind, event.actor_id, event.object_id) == ("runtime", "worker-1", str(row.pk))
    assert event.data == {
        "policy": "payments",
        "mode": "auto",
        "channels": ["ops-feishu"],
        "args_tag": digests.tag(row.organization_id, row.args_digest),
        "initiator": "u42",
    }
