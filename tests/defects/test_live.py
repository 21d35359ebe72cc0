"""The real runtime against the real portal on a socket."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest
from django.db import DatabaseError, connections
from hookgate import Outcome, Runtime
from hookgate.session.delegation import DelegationRefused

from hooks_app import confirmations
from hooks_app.confirmations import Voter
from hooks_app.models import ConfirmationRequest, ConnectorCallLog
from portal.lib.problems import Problem
from portal.wakeups import wakeups
from tests import make
from tests.defects import office as offices
from tests.defects.faults import failing
from tests.defects.office import Office
from tests.machinery.live import Portal
from tests.runtime.harness import FAST, Tool

# The real portal takes whole seconds.
PACING = replace(FAST, poll_hold=2.0)
KIM = {"id": "u42", "name": "Kim", "email": "kim@elsewhere.test"}


@pytest.fixture
def office(transactional_db: None) -> Office:
    """With commits that the portal's threads see."""
    built = offices.build()
    built.world.set_agent(max_pending=1000)
    return built


@pytest.fixture
def portal(office: Office) -> Iterator[Portal]:
    """The portal, serving the office."""
    wakeups.stop()
    running = Portal()
    running.start()
    yield running
    running.stop()


def waiting(count: int) -> list[ConfirmationRequest]:
    """The pending requests once there are ``count``, or none yet."""
    rows = list(ConfirmationRequest.objects.filter(status="pending"))
    return rows if len(rows) >= count else []


async def settled(count: int) -> list[ConfirmationRequest]:
    """Wait for ``count`` pending requests."""
    found: list[ConfirmationRequest] = []
    async with asyncio.timeout(20):
        while not found:
            await asyncio.sleep(0.05)
            found = await asyncio.to_thread(_apart, waiting, count)
    return found


def _apart(work: Any, *arguments: Any) -> Any:
    """Use the database in this thread and give its connection back."""
    try:
        return work(*arguments)
    finally:
        connections.close_all()


def decide(rows: list[ConfirmationRequest], office: Office) -> None:
    """Every third is approved, every third rejected, the others stay."""
    for row in rows:
        verdict = ["approve", "reject", ""][row.args["n"] % 3]
        if verdict:
            confirmations.decide(request_id=row.pk, voter=Voter(user=office.world.bob), decision=verdict)


def test_a_burst_on_a_failing_database_runs_nothing_unapproved(portal: Portal, office: Office) -> None:
    """Known failure 1 of earlier systems: of 500 gated calls at once a few ran, because the database gave up.

    Here one statement in fifty fails in every thread of the portal, while calls are asked, waited for and consumed.
    """
    office.world.set_policy(timeout_seconds=8)
    chance = random.Random(1)
    runs: list[int] = []

    async def pay(args: dict[str, Any]) -> str:
        runs.append(args["n"])
        return "paid"

    async def run() -> tuple[list[Outcome], int]:
        async with (
            Runtime(portal.url, office.key, pacing=PACING, name="burst") as runtime,
            runtime.session("procurement", user=KIM, conversation_id="c7") as session,
        ):
            await session.call_tool("oa__purchase_read", {}, execute=Tool())
            with failing(lambda number: chance.random() < 0.02) as counter:
                calls = [
                    asyncio.create_task(session.call_tool("oa__purchase_pay", {"n": n}, execute=pay))
                    for n in range(30)
                ]
                await asyncio.sleep(0.5)
                for _ in range(200):
                    if all(call.done() for call in calls):
                        break
                    await asyncio.to_thread(_apart, _decide_bravely, office)
                    await asyncio.sleep(0.1)
            return await asyncio.gather(*calls), counter.failed

    outcomes, failed = asyncio.run(run())
    assert failed > 20
    rows = {row.args["n"]: row for row in ConfirmationRequest.objects.filter(tool_name="oa__purchase_pay")}
    assert len(runs) == len(set(runs))
    for number, outcome in enumerate(outcomes):
        ran = number in runs
        assert outcome.blocked is not ran
        if ran:
            assert (rows[number].status, rows[number].consumed_at is None) == ("approved", False)
    assert {n % 3 for n in runs} == {0}


def _decide_bravely(office: Office) -> None:
    """Decide what is there; the database may fail here as well, and a deadline may have passed."""
    with suppress(DatabaseError):
        for row in waiting(1):
            with suppress(Problem):
                decide([row], office)


def test_a_delegate_asks_for_itself(portal: Portal, office: Office) -> None:
    """Known failure 2 of earlier systems: a tool that needs approval ran ungated when a sub-agent called it."""
    world = office.world
    helper = make.agent(world.organization, "helper", require_confirmation_for_all=True)
    make.agent(world.organization, "stranger")
    world.set_agent(may_delegate_to=["helper"])
    key = make.key(world.organization)
    tool = Tool("paid")

    async def run() -> list[Outcome]:
        async with (
            Runtime(portal.url, key, pacing=PACING, name="nested") as runtime,
            runtime.session("procurement", user=KIM, conversation_id="c7") as session,
        ):
            with pytest.raises(DelegationRefused):
                async with session.delegate("stranger"):
                    pass
            async with session.delegate("helper") as child:
                calls = [
                    asyncio.create_task(child.call_tool("oa__purchase_pay", {"n": n}, execute=tool))
                    for n in (0, 1)
                ]
                rows = await settled(2)
                assert {row.agent_id for row in rows} == {helper.pk}
                assert tool.runs == []
                await asyncio.to_thread(_apart, decide, rows, office)
                return await asyncio.gather(*calls)

    approved, rejected = asyncio.run(run())
    assert (tool.runs, approved.blocked, rejected.blocked_by) == ([{"n": 0}], False, "approval_gate")


@pytest.mark.parametrize("surface", ["api", "dag", "subagent", "workflow"])
def test_every_surface_is_gated_and_logged(portal: Portal, office: Office, surface: str) -> None:
    """Known failures 2 and 39 of earlier systems: workflow nodes called connectors with approval off and no log."""
    tool = Tool("paid")

    async def run() -> Outcome:
        async with (
            Runtime(portal.url, office.key, pacing=PACING, name="surfaces") as runtime,
            runtime.session("procurement", surface=surface, user=KIM, conversation_id="c7") as session,
        ):
            call = asyncio.create_task(session.call_tool("oa__purchase_pay", {"n": 1}, execute=tool))
            await asyncio.to_thread(_apart, decide, await settled(1), office)
            return await call

    outcome = asyncio.run(run())
    assert (tool.runs, outcome.blocked_by) == ([], "approval_gate")
    entry = ConnectorCallLog.objects.get()
    request = ConfirmationRequest.objects.get()
    assert (entry.surface, entry.status, entry.blocked_by) == (surface, "blocked", "approval_gate")
    assert (entry.confirmation_id, entry.args_digest) == (request.pk, request.args_digest)


class Counting(httpx.AsyncHTTPTransport):
    """A transport that writes down what is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url.path.rsplit('/', 1)[-1]}")
        return await super().handle_async_request(request)


def test_ungated_calls_ask_the_portal_nothing(portal: Portal, office: Office) -> None:
    """Known failure 44 of earlier systems: a gate that had nothing to do read the database at every call.

    Here the registry is fetched once; the call log is sent in batches, beside the calls.
    """
    tool, transport = Tool(), Counting()

    async def run() -> None:
        async with (
            Runtime(
                portal.url, office.key, name="idle", transport=transport, clock=lambda: 1000.0
            ) as runtime,
            runtime.session("procurement", user=KIM, conversation_id="c7") as session,
        ):
            for _ in range(300):
                await session.call_tool("oa__purchase_read", {}, execute=tool)
            assert transport.asked.count("GET registry") == 1
            assert transport.asked.count("POST calls") <= 3
            assert set(transport.asked) <= {"GET registry", "POST calls"}

    asyncio.run(run())
    assert len(tool.runs) == 300
    assert ConnectorCallLog.objects.count() == 300
