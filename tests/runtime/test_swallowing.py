"""A time-out, and a cancellation, hold whatever a hook or a tool does with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hookgate import HookContext, HookEvent, HookResult
from hookgate.hook import Hook
from hookgate.session.session import Session

from tests.runtime.documents import manifest
from tests.runtime.gating import always, gated, pay
from tests.runtime.harness import Tool, eventually, serve
from tests.soak import counts


def swallow_always(begin: Callable[[], None]) -> Any:
    async def hang() -> Any:
        begin()
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    return hang


def swallow_in_finally(begin: Callable[[], None]) -> Any:
    async def hang() -> Any:
        try:
            begin()
            await asyncio.sleep(60)
        finally:
            await asyncio.Event().wait()

    return hang


def swallow_twice(begin: Callable[[], None]) -> Any:
    async def hang() -> Any:
        begin()
        for _ in range(2):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    return hang


def swallow_in_a_group(begin: Callable[[], None]) -> Any:
    async def hang() -> Any:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            # Its tasks are the loop's: a group that is cancelled waits for them.
            group.create_task(swallow_twice(begin)())

    return hang


def swallow_in_shields(begin: Callable[[], None]) -> Any:
    async def hang() -> Any:
        begin()
        while True:
            with suppress(BaseException):
                await asyncio.shield(asyncio.sleep(60))

    return hang


SWALLOWERS = [swallow_always, swallow_in_finally, swallow_in_a_group, swallow_in_shields]


def hook_of(hang: Any, event: HookEvent, on_error: Any = None) -> Hook:
    class Stuck(Hook):
        points = (event,)
        name = "stuck"
        timeout_seconds = 0.05

        async def execute(self, ctx: HookContext) -> HookResult:
            await hang()
            return HookResult()

    Stuck.on_error = on_error
    return Stuck()


@pytest.mark.parametrize("swallow", SWALLOWERS)
def test_a_time_out_holds_whatever_a_hook_does_with_its_cancellation(swallow: Any) -> None:
    async def at(session: Session, event: HookEvent) -> None:
        """A tool call, or the point alone, with a hook that hangs there."""
        session.hooks.unregister("stuck")
        session.hooks.register(hook_of(swallow(lambda: None), event))
        blocks = event in (HookEvent.PRE_TOOL_USE, HookEvent.STOP)
        if event in (HookEvent.STOP, HookEvent.SESSION_START):
            assert (await session.emit(event)).allow is not blocks
            return
        tool = Tool()
        outcome = await session.call_tool("oa__read", {}, execute=tool)
        assert (outcome.blocked, len(tool.runs)) == (blocks, not blocks)
        words = [entry["outcome"] for entry in outcome.trace if entry["hook"] == "stuck"]
        assert words == ["timed_out_denied" if blocks else "timed_out_allowed"]

    async def run() -> None:
        everywhere = (HookEvent.POST_TOOL_USE, HookEvent.STOP, HookEvent.SESSION_START)
        async with serve(manifest()) as (_, runtime), runtime.session("procurement") as session:
            for event in (HookEvent.PRE_TOOL_USE, *(everywhere if swallow is swallow_always else ())):
                async with asyncio.timeout(3):
                    await at(session, event)

    started = time.monotonic()
    # Nor does the end of the loop wait for what was left to itself.
    asyncio.run(run())
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("swallow", SWALLOWERS)
def test_a_cancelled_call_is_not_held_up_by_its_tool_or_hook(swallow: Any) -> None:
    async def run(of: str) -> None:
        async with gated() as (portal, session, _):
            always(portal)
            began = asyncio.Event()
            hang = swallow(began.set)

            async def tool(args: Any) -> Any:
                await hang()

            if of == "hook":
                session.hooks.register(hook_of(hang, HookEvent.PRE_TOOL_USE))
                type(session.hooks.hooks("PreToolUse")[0]).timeout_seconds = 60
                calling = pay(session, Tool())
            else:
                calling = pay(session, tool)
            await began.wait()
            calling.cancel()
            started = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await calling
            assert time.monotonic() - started < 3
            if of == "tool":
                await eventually(lambda: [r["outcome"] for r in portal.confirmations.values()] == ["unknown"])

    asyncio.run(run("hook"))
    if counts.SOAK or swallow is swallow_always:
        asyncio.run(run("tool"))
