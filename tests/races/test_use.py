"""Asking for an approval and using it, many times at once: one request, one card, one run."""

import uuid
from collections import Counter
from functools import partial

import pytest

from channels_app.models import Delivery
from hooks_app import confirmations
from hooks_app.models import ConfirmationRequest
from portal.lib.problems import Problem
from portal.models import AuditEvent
from tests.confirmations.world import ARGS, World
from tests.races import doors
from tests.races.crowd import at_once, codes
from tests.races.tally import Tally

pytestmark = pytest.mark.django_db(transaction=True)


def audited(row: ConfirmationRequest, action: str) -> int:
    """How often the audit trail says so of the request."""
    return AuditEvent.objects.filter(object_id=str(row.pk), action=f"confirmation.{action}").count()


@pytest.mark.parametrize("size", [2, 8])
def test_one_attempt_consumes(world: World, size: int) -> None:
    runtime = doors.runtime(world)
    tally = Tally(f"{size} attempts to consume")
    for _ in tally.rounds():
        row = world.approve(world.ask(), world.bob)
        attempts = [uuid.uuid4() for _ in range(size)]
        results = at_once(*(partial(runtime.consume, row, attempt) for attempt in attempts))
        told = Counter((result.status, result.body.get("code")) for result in results)
        tally.seen("used")
        tally.fault("double", told[200, None] > 1)
        tally.fault("lost", told[200, None] == 0)
        tally.fault("told", told != {(200, None): 1, (409, "already_consumed"): size - 1})
        winner = next(index for index, result in enumerate(results) if result.status == 200)
        stored = ConfirmationRequest.objects.get(pk=row.pk)
        tally.fault("another's", stored.attempt != attempts[winner])
        tally.fault("trail", audited(row, "consumed") != 1)
    tally.record()


def test_a_repeated_attempt_is_one_use(world: World) -> None:
    runtime = doors.runtime(world)
    tally = Tally("one attempt eight times")
    for _ in tally.rounds():
        row = world.approve(world.ask(), world.bob)
        results = at_once(*[partial(runtime.consume, row, uuid.uuid4())] * 8)
        tally.fault("refused", sum(result.status != 200 for result in results))
        tally.fault("answers differ", len({result.body["consumed_at"] for result in results}) != 1)
        tally.fault("trail", audited(row, "consumed") != 1)
    tally.record()


def test_one_outcome_stands(world: World) -> None:
    runtime = doors.runtime(world)
    tally = Tally("two outcomes of one run")
    for _ in tally.rounds():
        row = world.approve(world.ask(), world.bob)
        assert runtime.consume(row, uuid.uuid4()).accepted
        said = ("succeeded", "failed")
        results = at_once(
            *(partial(runtime.post, f"/confirmations/{row.pk}/outcome", {"status": one}) for one in said)
        )
        stands = ConfirmationRequest.objects.get(pk=row.pk).outcome
        tally.seen(stands or "none")
        told = {one: result.body.get("code") for one, result in zip(said, results, strict=True)}
        tally.fault("told", told != {one: None if one == stands else "outcome_conflict" for one in said})
        tally.fault("trail", audited(row, "outcome") != 1)
    tally.record()


def test_one_tool_call_asked_by_16_runtimes_is_one_request(world: World) -> None:
    runtime = doors.runtime(world)
    tally = Tally("one call asked by 16 runtimes")
    digest = world.digest()
    for _ in tally.rounds():
        body = {
            "agent": world.agent.slug,
            "conversation_id": "c7",
            "tool_call_id": f"call_{uuid.uuid4().hex}",
            "tool_name": "oa__purchase_pay",
            "tool_args": ARGS,
            "registry_digest": digest,
            "hook": "approval_gate",
            "initiator": {"id": "u42", "name": "Kim", "email": "kim@elsewhere.test"},
        }
        results = at_once(
            *(partial(runtime.post, "/confirmations", body, runtime=f"worker-{n}") for n in range(16))
        )
        told = Counter(result.status for result in results)
        tally.fault("told", told != {201: 1, 200: 15})
        tally.fault("ids differ", len({result.body["id"] for result in results}) != 1)
        rows = ConfirmationRequest.objects.filter(tool_call_id=body["tool_call_id"])
        tally.fault("requests twice", rows.count() - 1)
        row = rows.get()
        tally.fault("cards twice", Delivery.objects.filter(topic=f"confirmation:{row.pk}").count() - 1)
        tally.fault("trail", audited(row, "created") != 1)
    tally.record()


def test_the_limit_holds_against_a_burst(world: World) -> None:
    world.set_agent(max_pending=3)
    tally = Tally("eight calls of an agent that may have three")
    for _ in tally.rounds():
        results = at_once(
            *(
                partial(confirmations.create, agent=world.agent, runtime="", request=world.proposal())
                for _ in range(8)
            )
        )
        tally.fault("refusals", codes(results) != ["too_many_pending"] * 5)
        tally.fault("too many", ConfirmationRequest.objects.filter(status="pending").count() - 3)
        for made in results:
            if not isinstance(made, Problem):
                confirmations.cancel(request=made[0])
    tally.record()
