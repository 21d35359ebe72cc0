"""Faults at every request. A gated tool runs only where consume was answered with 200."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hookgate import Outcome, Runtime

from tests.runtime.documents import manifest
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.harness import FAST, USER, Tool, eventually, serve

FAULTS = ("500", "503", "429", "garbage", "html", "reset", "truncated", "slow", "redirect")
BEFORE_AND_AFTER = [*FAULTS, *(f"late-{fault}" for fault in FAULTS)]
TRIES = len(FAST.retry_delays) + 1


async def pay_through(
    portal: FakePortal, runtime: Runtime, verdict: str = "approved"
) -> tuple[Outcome, Tool]:
    """One payment that people decide at once."""
    tool = Tool("paid")
    portal.on_create = lambda resource: resource.update(status=verdict)
    async with runtime.session("procurement", user=USER, conversation_id="c7") as session:
        outcome = await session.call_tool(
            "oa__purchase_pay", {"amount": 1}, execute=tool, tool_call_id="call_01"
        )
    return outcome, tool


@pytest.mark.parametrize("fault", BEFORE_AND_AFTER)
@pytest.mark.parametrize("operation", ["create", "consume"])
def test_one_fault_is_survived_and_many_block(operation: str, fault: str) -> None:
    async def run(times: int) -> None:
        async with serve(manifest(), timeout=0.1) as (portal, runtime):
            portal.fail(operation, *[fault] * times)
            outcome, tool = await pay_through(portal, runtime)
            survived = times < TRIES
            assert (len(tool.runs), outcome.blocked) == ((1, False) if survived else (0, True))
            assert len(portal.confirmations) <= 1
            if not survived:
                assert outcome.blocked_by == "approval_gate"
                assert "out of reach" in (outcome.reason or "")
            if operation == "consume":
                attempts = {body["attempt"] for body in portal.seen("consume") if body}
                assert len(attempts) == 1

    asyncio.run(run(1))
    asyncio.run(run(TRIES))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("verdict", ["approved", "rejected", "expired"])
def test_a_fault_while_waiting_is_waited_through(fault: str, verdict: str) -> None:
    async def run() -> None:
        async with serve(manifest(), timeout=0.2) as (portal, runtime):
            tool = Tool("paid")
            async with runtime.session("procurement", user=USER) as session:
                portal.fail("wait", fault, fault)
                task = asyncio.create_task(session.call_tool("oa__purchase_pay", {}, execute=tool))
                (request,) = await portal.pending()
                await eventually(lambda: not portal.faults["wait"])
                await portal.settle(request["id"], verdict)
                outcome = await task
            assert (len(tool.runs), outcome.blocked) == ((1, False) if verdict == "approved" else (0, True))

    asyncio.run(run())


@pytest.mark.parametrize("fault", ["500", "reset", "slow", "html"])
def test_a_portal_that_stays_away_blocks_once_the_requests_time_is_over(fault: str) -> None:
    async def run() -> None:
        async with serve(manifest(), timeout=0.1) as (portal, runtime):
            portal.timeout = 0.2
            portal.standing["wait"] = fault
            tool = Tool("paid")
            async with runtime.session("procurement", user=USER) as session:
                outcome = await session.call_tool("oa__purchase_pay", {}, execute=tool)
            assert (tool.runs, outcome.blocked_by) == ([], "approval_gate")
            assert [item["status"] for item in portal.confirmations.values()] == ["cancelled"]

    asyncio.run(run())


@pytest.mark.parametrize("fault", BEFORE_AND_AFTER)
def test_an_outcome_that_can_not_be_reported_changes_nothing_for_the_call(fault: str) -> None:
    async def run() -> None:
        async with serve(manifest(), timeout=0.1) as (portal, runtime):
            portal.fail("outcome", fault, fault)
            outcome, tool = await pay_through(portal, runtime)
            assert (outcome.result, len(tool.runs)) == ("paid", 1)
            (request,) = portal.confirmations.values()
            await eventually(lambda: request["outcome"] == "succeeded")

    asyncio.run(run())


def test_a_consume_whose_answers_were_all_lost_is_reported_as_unknown() -> None:
    async def run() -> None:
        async with serve(manifest(), timeout=0.1) as (portal, runtime):
            portal.fail("consume", *["late-reset"] * TRIES)
            outcome, tool = await pay_through(portal, runtime)
            assert (outcome.blocked, tool.runs) == (True, [])
            (request,) = portal.confirmations.values()
            await eventually(lambda: request["outcome"] == "unknown")

    asyncio.run(run())


def approve(resource: dict[str, Any], *, seconds: float) -> None:
    """People have said yes just now; the call may start for so many seconds."""
    now = datetime.now(UTC)
    start_by = now + timedelta(seconds=seconds)
    resource.update(status="approved", ended_at=now.isoformat(), start_by=start_by.isoformat())


@pytest.mark.parametrize("fault", ["reset", "late-reset", "503", "late-503"])
def test_an_approval_outlives_a_portal_that_is_away_while_it_may_still_be_used(fault: str) -> None:
    async def run() -> None:
        async with serve(manifest(), timeout=0.1) as (portal, runtime):
            tool = Tool("paid")
            portal.on_create = lambda resource: approve(resource, seconds=60)
            portal.fail("consume", *[fault] * TRIES * 4)
            async with runtime.session("procurement", user=USER) as session:
                outcome = await session.call_tool("oa__purchase_pay", {}, execute=tool)
            assert (outcome.result, len(tool.runs)) == ("paid", 1)
            assert len({body["attempt"] for body in portal.seen("consume") if body}) == 1

    asyncio.run(run())


def test_an_approval_is_not_waited_with_beyond_its_time_to_start() -> None:
    async def run() -> None:
        async with serve(manifest(), timeout=0.1) as (portal, runtime):
            tool = Tool("paid")
            portal.on_create = lambda resource: approve(resource, seconds=0.5)
            portal.standing["consume"] = "reset"
            async with asyncio.timeout(5), runtime.session("procurement", user=USER) as session:
                outcome = await session.call_tool("oa__purchase_pay", {}, execute=tool)
            assert (outcome.blocked_by, tool.runs) == ("approval_gate", [])
            assert len(portal.seen("consume")) > TRIES

    asyncio.run(run())


def test_leaving_ends_the_repeating_of_a_use_that_got_no_answer() -> None:
    async def run() -> None:
        async with serve(manifest(), timeout=0.1) as (portal, runtime):
            tool = Tool("paid")
            portal.on_create = lambda resource: approve(resource, seconds=60)
            portal.standing["consume"] = "late-reset"
            async with runtime.session("procurement", user=USER) as session:
                call = asyncio.create_task(session.call_tool("oa__purchase_pay", {}, execute=tool))
                await eventually(lambda: len(portal.seen("consume")) > TRIES)
            async with asyncio.timeout(2):
                outcome = await call
            assert (outcome.blocked_by, tool.runs) == ("approval_gate", [])
            (request,) = portal.confirmations.values()
            await eventually(lambda: request["outcome"] == "unknown")

    asyncio.run(run())


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422])
@pytest.mark.parametrize("operation", ["create", "wait", "consume"])
def test_a_refusal_anywhere_blocks(operation: str, status: int) -> None:
    async def run() -> None:
        async with serve(manifest()) as (portal, runtime):
            tool = Tool("paid")
            portal.standing[operation] = str(status)
            async with runtime.session("procurement", user=USER) as session:
                task = asyncio.create_task(session.call_tool("oa__purchase_pay", {}, execute=tool))
                if operation != "create":
                    (request,) = await portal.pending()
                    await portal.settle(request["id"], "approved")
                outcome = await task
                assert (tool.runs, outcome.blocked_by) == ([], "approval_gate")
                if status == 401:
                    portal.standing.clear()
                    after = await session.call_tool("oa__read", {}, execute=tool)
                    assert (after.blocked_by, tool.runs) == ("registry", [])

    asyncio.run(run())


@pytest.mark.parametrize("fault", FAULTS)
def test_without_a_registry_no_tool_runs_and_with_one_again_it_does(fault: str) -> None:
    async def run() -> None:
        async with serve(manifest(), timeout=0.1) as (portal, runtime):
            portal.standing["registry"] = fault
            tool = Tool()
            async with runtime.session("procurement") as session:
                outcome = await session.call_tool("oa__read", {}, execute=tool)
                assert (tool.runs, outcome.blocked_by) == ([], "registry")
                assert "out of reach" in (outcome.reason or "")
                portal.standing.clear()
                assert not (await session.call_tool("oa__read", {}, execute=tool)).blocked

    asyncio.run(run())


def test_a_portal_that_refuses_connections_is_out_of_reach() -> None:
    async def run() -> None:
        portal = FakePortal()
        async with portal:
            pass
        async with (
            Runtime(portal.url, KEY, pacing=FAST) as runtime,
            runtime.session("procurement") as session,
        ):
            tool = Tool()
            assert (await session.call_tool("oa__read", {}, execute=tool)).blocked_by == "registry"
            assert tool.runs == []

    asyncio.run(run())


@pytest.mark.parametrize("verdict", ["rejected", "expired", "cancelled", "undeliverable", "pending"])
@pytest.mark.parametrize("operation", ["create", "wait", "consume", "outcome", "cancel", "calls", "registry"])
def test_no_fault_makes_an_unapproved_request_run(operation: str, verdict: str) -> None:
    async def run() -> None:
        faults: list[Any] = ["late-reset", "500", "garbage"]
        async with serve(manifest(), timeout=0.1) as (portal, runtime):
            portal.timeout = 0.05
            portal.fail(operation, *faults)
            outcome, tool = await pay_through(portal, runtime, verdict)
            assert (outcome.blocked, tool.runs) == (True, [])

    asyncio.run(run())


@pytest.mark.parametrize("status", [201, 202, 204, 206])
def test_only_200_to_consume_runs_the_tool(status: int) -> None:
    async def run() -> None:
        async with serve(manifest()) as (portal, runtime):
            portal.standing["consume"] = str(status)
            outcome, tool = await pay_through(portal, runtime)
            assert (outcome.blocked_by, tool.runs) == ("approval_gate", [])

    asyncio.run(run())
