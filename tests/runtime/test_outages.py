"""A portal that goes away at one request, and every fault at what a call does not depend on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.runtime.documents import hook, manifest
from tests.runtime.fake_portal import FakePortal
from tests.runtime.gating import ARGS
from tests.runtime.harness import USER, Tool, eventually, serve
from tests.runtime.streaming import PACING
from tests.runtime.test_faults import FAULTS


def approve_soon(portal: FakePortal) -> None:
    """People say yes before the runtime waits; there is time to use it."""
    now = datetime.now(UTC)
    times = {"ended_at": now.isoformat(), "start_by": (now + timedelta(seconds=60)).isoformat()}
    portal.on_create = lambda resource: resource.update(status="approved", **times)


@pytest.mark.parametrize(
    ("operation", "runs"),
    [("create", 0), ("wait", 1), ("consume", 1), ("outcome", 1), ("calls", 1), ("limits", 0), ("notify", 1)],
)
def test_a_portal_that_refuses_connections_from_one_request_on(operation: str, runs: int) -> None:
    async def run() -> None:
        document = manifest(
            hook("connector_rate_limit"),
            hook("notify", params={"channel": "ops", "text": "{tool}", "points": ["PreToolUse"]}),
        )
        tool = Tool("paid")
        async with serve(document) as (portal, runtime):
            if operation != "wait":
                approve_soon(portal)
            async with runtime.session("procurement", user=USER) as session:
                portal.falls_at = operation
                call = asyncio.create_task(session.call_tool("oa__purchase_pay", ARGS, execute=tool))
                await portal.fallen.wait()
                if runs == 0:
                    # The call must end by itself: nobody comes back for it.
                    assert (await call).blocked
                await portal.restart()
                if operation == "wait":
                    (request,) = await portal.pending()
                    await portal.settle(request["id"], "approved")
                outcome = await call
                assert (len(tool.runs), outcome.blocked) == (runs, not runs)
            await eventually(lambda: len(portal.calls) == 1)
            if runs:
                (request,) = portal.confirmations.values()
                await eventually(lambda: request["outcome"] == "succeeded")

    asyncio.run(run())


def test_a_portal_that_refuses_connections_leaves_the_registry_in_use_and_the_stream_comes_back() -> None:
    async def run() -> None:
        async with serve(manifest(), pacing=PACING) as (portal, runtime):
            portal.events.kind = "ok"
            feed = runtime.feed("procurement")
            async with runtime.session("procurement") as session:
                await eventually(lambda: feed.healthy)
                portal.falls_at = "registry"
                runtime.source("procurement", "chat").invalidate()
                await portal.fallen.wait()
                await eventually(lambda: not feed.healthy)
                assert not (await session.call_tool("oa__read", {}, execute=Tool())).blocked
                await portal.restart()
                await eventually(lambda: feed.healthy, 10)

    asyncio.run(run())


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("name", "operation", "runs"), [("connector_rate_limit", "limits", 0), ("notify", "notify", 1)]
)
def test_every_fault_at_a_hook_that_needs_the_portal(
    name: str, operation: str, runs: int, fault: str
) -> None:
    async def run() -> None:
        params: Any = {"channel": "ops", "text": "x", "points": ["PreToolUse"]} if name == "notify" else {}
        async with (
            serve(manifest(hook(name, params=params)), timeout=0.2) as (portal, runtime),
            runtime.session("procurement") as session,
        ):
            portal.standing[operation] = fault
            tool = Tool()
            outcome = await session.call_tool("oa__read", {}, execute=tool)
            assert (len(tool.runs), outcome.blocked_by) == (runs, None if runs else name)
            word = "failed_allowed" if runs else "failed_denied"
            assert (name, word) in [(entry["hook"], entry["outcome"]) for entry in outcome.trace]

    asyncio.run(run())


@pytest.mark.parametrize("fault", [*FAULTS, *(f"late-{fault}" for fault in FAULTS)])
def test_every_fault_at_the_call_log_costs_no_call_and_no_entry(fault: str) -> None:
    async def run() -> None:
        async with serve(manifest(), timeout=0.2) as (portal, runtime):
            portal.fail("calls", fault, fault)
            async with runtime.session("procurement") as session:
                outcome = await session.call_tool("oa__read", {}, execute=Tool())
                assert not outcome.blocked
                await eventually(lambda: not portal.faults["calls"] and len(portal.calls) == 1)

    asyncio.run(run())


def test_a_flood_of_requests_for_approval_holds_up_neither_a_use_nor_another_call() -> None:
    async def run() -> None:
        async with (
            serve(manifest(), timeout=20.0) as (portal, runtime),
            runtime.session("procurement", user=USER) as session,
        ):
            original, answer = portal._create, asyncio.Event()

            async def late(match: Any, query: Any, body: Any, headers: Any) -> Any:
                if body["tool_call_id"] != "first":
                    await answer.wait()
                return await original(match, query, body, headers)

            portal._create = late  # type: ignore[method-assign]
            tool = Tool("paid")

            def pay(name: str) -> asyncio.Task[Any]:
                return asyncio.create_task(
                    session.call_tool("oa__purchase_pay", ARGS, execute=tool, tool_call_id=name)
                )

            first = pay("first")
            (request,) = await portal.pending()
            flood = [pay(f"call_{n}") for n in range(100)]
            await eventually(lambda: len(portal.seen("create")) >= 33)
            await portal.settle(request["id"], "approved")
            async with asyncio.timeout(10):
                assert (await first).result == "paid"
                runtime.source("procurement", "chat").invalidate()
                await eventually(lambda: len(portal.seen("registry")) == 2)
            assert len(portal.seen("create")) == 33
            approve_soon(portal)
            answer.set()
            async with asyncio.timeout(20):
                assert {outcome.result for outcome in await asyncio.gather(*flood)} == {"paid"}

    asyncio.run(run())
