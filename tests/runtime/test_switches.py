"""Switches and refusals reach what has begun, and a registry is kept fresh without calls."""

from __future__ import annotations

import asyncio
import time

import pytest
from hookgate import HookContext, HookResult, PreToolUseHook

from tests.runtime.documents import manifest, switched
from tests.runtime.fake_portal import Problem
from tests.runtime.gating import pay
from tests.runtime.harness import Tool, eventually
from tests.runtime.streaming import approve, run_tool, streamed, tell


class Slow(PreToolUseHook):
    """Takes as long as the test wants."""

    name = "slow"

    def __init__(self) -> None:
        self.running, self.go_on = asyncio.Event(), asyncio.Event()

    async def execute(self, ctx: HookContext) -> HookResult:
        self.running.set()
        await self.go_on.wait()
        return HookResult()


@pytest.mark.parametrize("switch", ["halted", "read_only"])
@pytest.mark.parametrize("kind", ["ok", "403"])
def test_a_switch_holds_for_a_call_whose_hooks_still_run(switch: str, kind: str) -> None:
    async def run() -> None:
        document = manifest(freshness={"revalidate_after_seconds": 1, "max_stale_seconds": 300})
        async with streamed(document, kind) as (portal, runtime, session):
            tool, slow = Tool(), Slow()
            session.hooks.register(slow)
            call = asyncio.create_task(session.call_tool("oa__write", {}, execute=tool))
            await slow.running.wait()
            changed = switched(document, **{switch: True})
            portal.publish(changed)
            if kind == "ok":
                portal.events.send("procurement", "state", changed["state"])
            source = runtime.source("procurement", "chat")
            await eventually(lambda: source.manifest and getattr(source.manifest.state, switch), 15)
            slow.go_on.set()
            outcome = await call
            assert outcome.blocked_by == ("halted" if switch == "halted" else "readonly_guard")
            assert (tool.runs, outcome.status) == ([], "blocked")

    asyncio.run(run())


@pytest.mark.parametrize("gated", [True, False])
def test_a_session_that_is_stopped_runs_nothing_that_has_begun(gated: bool) -> None:
    async def run() -> None:
        async with streamed() as (portal, runtime, session):
            tool, slow = Tool(), Slow()
            if gated:
                call = pay(session, tool)
            else:
                session.hooks.register(slow)
                call = asyncio.create_task(session.call_tool("oa__read", {}, execute=tool))
                await slow.running.wait()
            portal.refusals["procurement"] = Problem(422, "registry_unbuildable")
            portal.events.send("procurement", "registry", {"revision": None, "digest": None})
            await eventually(lambda: runtime.source("procurement", "chat").stopped is not None)
            slow.go_on.set()
            if gated:
                tell(portal, await approve(portal))
            assert ((await call).blocked_by, tool.runs) == ("registry", [])
            assert portal.seen("consume") == []

    asyncio.run(run())


def test_a_registry_is_kept_fresh_without_a_call_and_only_while_a_session_is_open() -> None:
    async def run() -> None:
        document = manifest(freshness={"revalidate_after_seconds": 1, "max_stale_seconds": 300})
        async with streamed(document, "403") as (portal, runtime, session):
            await eventually(lambda: portal.etag_hits >= 2, 15)
            halted = switched(document, halted=True)
            portal.publish(halted)
            published = time.monotonic()
            source = runtime.source("procurement", "chat")
            await eventually(lambda: source.manifest and source.manifest.state.halted)
            # The goal is two seconds; the rest is for a machine that has other things to do.
            assert time.monotonic() - published < 4
            asked = len(portal.seen("registry"))
            assert await run_tool(session) == "halted"
            assert len(portal.seen("registry")) - asked <= 1
            session.leave()
            asked = len(portal.seen("registry"))
            await asyncio.sleep(1.5)
            assert len(portal.seen("registry")) <= asked + 1

    asyncio.run(run())
