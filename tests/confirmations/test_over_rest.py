"""What the state machine owes its callers over HTTP: the key's reach, the key's name, a deadline that holds."""

import uuid

from hooks_app import keys
from hooks_app.models import ConfirmationRequest
from portal import audit
from portal.models import AuditEvent
from tests import make
from tests.api.client import Api
from tests.confirmations.world import World, state
from tests.conftest import Clock


def ask(api: Api, agent: str, digest: str, **more: object) -> ConfirmationRequest:
    """A runtime asks; the new row."""
    answer = api.post(
        "/confirmations",
        {
            "agent": agent,
            "conversation_id": "c7",
            "tool_call_id": str(uuid.uuid4()),
            "tool_name": "oa__purchase_pay",
            "tool_args": {"amount": 1},
            "registry_digest": digest,
            **more,
        },
    )
    assert answer.status == 201, answer.body
    return ConfirmationRequest.objects.get(pk=answer.body["id"])


def test_a_delegate_names_its_callers_request_with_the_organizations_key(world: World) -> None:
    helper = make.agent(world.organization, "researcher", approval_policy="payments")
    digest = World.digest(World(**{**world.__dict__, "agent": helper}))
    parent = world.ask()
    child = ask(Api(make.key(world.organization)), "researcher", digest, parent=str(parent.pk))
    assert child.parent == parent
    answer = Api(make.key(world.organization, helper)).post(
        "/confirmations",
        {
            "agent": "researcher",
            "conversation_id": "c7",
            "tool_call_id": "call_01",
            "tool_name": "oa__purchase_pay",
            "tool_args": {},
            "registry_digest": digest,
            "parent": str(parent.pk),
        },
    )
    assert (answer.status, answer.paths) == (400, ["parent"])


def test_whoever_reads_at_the_deadline_makes_the_end_real(world: World, time: Clock) -> None:
    row = world.ask()
    time.advance(seconds=120)
    answer = Api(make.key(world.organization)).get(f"/confirmations/{row.pk}")
    assert answer.body["status"] == "expired"
    assert state(row) == "expired"


def test_the_audit_trail_names_the_key(world: World) -> None:
    key, plain = keys.issue(organization=world.organization, label="worker key", actor=audit.SHELL)
    api = Api(plain)
    used = ask(api, "procurement", world.digest())
    world.approve(used, world.bob)
    attempt = {"args_digest": used.args_digest, "attempt": str(uuid.uuid4())}
    assert api.post(f"/confirmations/{used.pk}/consume", attempt).status == 200
    assert api.post(f"/confirmations/{used.pk}/outcome", {"status": "succeeded"}).status == 200
    dropped = ask(api, "procurement", world.digest())
    assert api.post(f"/confirmations/{dropped.pk}/cancel").status == 200
    by_key = AuditEvent.objects.filter(actor_kind="runtime", actor_id=str(key.pk)).order_by("sequence")
    assert [event.action for event in by_key] == [
        "confirmation.created",
        "confirmation.consumed",
        "confirmation.outcome",
        "confirmation.created",
        "confirmation.cancelled",
    ]
