"""Contract section 4: every request names the version, and nobody is asked at a portal below it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hookgate import Outcome

from tests.runtime.documents import PAY, READ, manifest
from tests.runtime.fake_portal import FakePortal
from tests.runtime.gating import always
from tests.runtime.harness import Hands, Tool, eventually, serve

AGENT = manifest(tools=[PAY, READ])


def test_every_request_names_the_version() -> None:
    async def run() -> None:
        async with serve(AGENT) as (portal, runtime), runtime.session("procurement") as session:
            call = asyncio.create_task(session.call_tool("oa__purchase_pay", {"n": 1}, execute=Tool()))
            [waiting] = await portal.pending()
            await eventually(lambda: portal.seen("wait"))
            await portal.settle(waiting["id"], "approved")
            assert (await call).status == "succeeded"
            await runtime.announce_tools("procurement", [])
            await eventually(lambda: portal.seen("calls") and portal.seen("outcome"))
        assert {operation for operation, _, _ in portal.requests} >= {
            "registry", "create", "wait", "consume", "outcome", "calls", "tools",
        }  # fmt: skip
        assert {headers.get("hookgate-contract") for _, _, headers in portal.requests} == {"3"}

    asyncio.run(run())


@pytest.mark.parametrize("named", [None, "2", "1", "0", "", "three", "3.1", "-3", "3, 3", "9" * 400])
def test_nobody_is_asked_at_an_older_portal_and_what_needs_nobody_goes_on(named: str | None) -> None:
    async def run() -> tuple[Outcome, Outcome, FakePortal]:
        async with serve(AGENT) as (portal, runtime):
            portal.contract = named
            async with runtime.session("procurement") as session:
                gated = await session.call_tool("oa__purchase_pay", {"n": 1}, execute=Tool())
                return gated, await session.call_tool("oa__read", {}, execute=Tool()), portal

    gated, free, portal = asyncio.run(run())
    assert (gated.blocked_by, free.status) == ("approval_gate", "succeeded")
    assert "upgrade the portal" in (gated.reason or "")
    assert portal.seen("create") == []


@pytest.mark.parametrize("named", ["3", "4", "17", " 3 "])
def test_a_portal_of_this_version_or_a_newer_one_is_asked(named: str) -> None:
    async def run() -> Outcome:
        async with serve(AGENT) as (portal, runtime):
            portal.contract = named
            async with runtime.session("procurement") as session:
                always(portal)
                return await session.call_tool("oa__purchase_pay", {"n": 1}, execute=Tool())

    assert asyncio.run(run()).status == "succeeded"


def test_a_portal_that_was_upgraded_meanwhile_is_asked_once_it_says_so() -> None:
    async def run() -> list[Any]:
        clock = Hands()
        async with serve(AGENT, clock=clock) as (portal, runtime):
            portal.contract = None
            async with runtime.session("procurement") as session:
                before = await session.call_tool("oa__purchase_pay", {"n": 1}, execute=Tool())
                portal.contract = "3"
                clock.now += 20  # the registry is asked for again, and is unchanged
                always(portal)
                after = await session.call_tool("oa__purchase_pay", {"n": 1}, execute=Tool())
                return [before.blocked, after.status, portal.etag_hits]

    assert asyncio.run(run()) == [True, "succeeded", 1]


def test_what_an_older_process_of_the_portal_was_asked_is_taken_back() -> None:
    """Two processes answer, one of them not upgraded yet: the registry came from the new one."""

    async def run() -> tuple[Outcome, FakePortal]:
        tool = Tool()
        async with serve(AGENT) as (portal, runtime), runtime.session("procurement") as session:
            portal.contract = None
            outcome = await session.call_tool("oa__purchase_pay", {"n": 1}, execute=tool)
        assert tool.runs == []
        return outcome, portal

    outcome, portal = asyncio.run(run())
    assert "upgrade the portal" in (outcome.reason or "")
    assert [item["status"] for item in portal.confirmations.values()] == ["cancelled"]
