"""Leaving detaches, cancelling cancels."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import Any

import pytest
from hookgate import HookContext, HookResult, PreToolUseHook, Runtime

from tests.runtime.documents import manifest
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.gating import ARGS, always, gated, pay
from tests.runtime.harness import FAST, USER, Tool, eventually


def test_leaving_detaches_and_the_next_process_takes_the_request_up() -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest())
            tool = Tool("paid")
            async with Runtime(portal.url, KEY, pacing=FAST) as runtime:
                async with runtime.session("procurement", user=USER, conversation_id="c7") as session:
                    task = pay(session, tool)
                    (request,) = await portal.pending()
                outcome = await task
                assert (outcome.blocked, outcome.status) == (True, "cancelled")
                assert outcome.reason == "the session was left; the request stays for the next process"
            assert request["status"] == "pending"
            async with (
                Runtime(portal.url, KEY, pacing=FAST) as runtime,
                runtime.session("procurement", user=USER, conversation_id="c7") as session,
            ):
                task = pay(session, tool)
                await eventually(lambda: len(portal.seen("create")) == 2)
                await portal.settle(request["id"], "approved")
                assert (await task).result == "paid"
            assert (len(portal.confirmations), len(tool.runs)) == (1, 1)

    asyncio.run(run())


class Slow(PreToolUseHook):
    """Takes its time before the gate asks anybody."""

    name = "slow"

    def __init__(self, gone: asyncio.Event, begun: asyncio.Event) -> None:
        self.gone, self.begun = gone, begun

    async def execute(self, ctx: HookContext) -> HookResult:
        self.begun.set()
        await self.gone.wait()
        return HookResult()


@pytest.mark.parametrize("where", ["before the gate", "while it is told"])
def test_a_call_that_comes_to_waiting_after_the_leaving_does_not_wait(where: str) -> None:
    """What is not cancelled by the leaving, as it is not waiting yet, must not begin to."""

    async def run() -> None:
        begun, gone = asyncio.Event(), asyncio.Event()

        async def hear(event: dict[str, Any]) -> None:
            if where == "while it is told" and event["type"] == "awaiting_confirmation":
                begun.set()
                await gone.wait()

        async with FakePortal() as portal:
            portal.publish(manifest())
            tool = Tool("paid")
            async with (
                Runtime(portal.url, KEY, pacing=FAST) as runtime,
                runtime.session("procurement", user=USER, on_event=hear) as session,
            ):
                if where == "before the gate":
                    session.hooks.register(Slow(gone, begun))
                task = pay(session, tool)
                await asyncio.wait_for(begun.wait(), 5)
            gone.set()
            outcome = await asyncio.wait_for(task, 5)
            assert (outcome.blocked, outcome.status) == (True, "cancelled")
            assert outcome.reason == "the session was left; the request stays for the next process"
            told = where == "while it is told"
            assert [item["status"] for item in portal.confirmations.values()] == ["pending"] * told
            assert (portal.seen("wait"), tool.runs) == ([], [])

    asyncio.run(run())


async def wait_in_session(portal: FakePortal, tool: Tool, timeout: float | None = None) -> None:
    async with (
        Runtime(portal.url, KEY, pacing=FAST) as runtime,
        runtime.session("procurement", conversation_id="c7") as session,
    ):
        if timeout is None:
            await session.call_tool("oa__purchase_pay", ARGS, execute=tool)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(session.call_tool("oa__purchase_pay", ARGS, execute=tool), timeout)
        # The session goes on: the call alone was given up.
        await eventually(lambda: portal.seen("cancel"))


def test_cancelling_the_whole_program_detaches_and_a_time_out_around_one_call_cancels_it() -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest())
            program = asyncio.create_task(wait_in_session(portal, Tool()))
            (request,) = await portal.pending()
            program.cancel()
            with pytest.raises(asyncio.CancelledError):
                await program
            assert (request["status"], portal.seen("cancel")) == ("pending", [])
            await wait_in_session(portal, Tool(), timeout=0.1)
            assert [item["status"] for item in portal.confirmations.values()] == ["pending", "cancelled"]

    asyncio.run(run())


def test_cancelling_one_calls_task_cancels_its_request() -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            first, second = pay(session, tool), pay(session, tool, tool_call_id="call_02")
            await portal.pending(2)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert sorted(item["status"] for item in portal.confirmations.values()) == [
                "cancelled",
                "pending",
            ]
            assert await session.cancel("call_02")
            outcome = await second
            assert (outcome.blocked, tool.runs) == (True, [])
            assert not await session.cancel("call_02")
            await eventually(lambda: len(portal.calls) == 2)
            assert {entry["status"] for entry in portal.calls.values()} == {"cancelled", "blocked"}

    asyncio.run(run())


def test_a_runtime_that_detaches_first_cancels_nothing() -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            task = pay(session, tool)
            (request,) = await portal.pending()
            session.process.detach()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (request["status"], portal.seen("cancel")) == ("pending", [])

    asyncio.run(run())


def test_a_call_that_is_cancelled_while_the_tool_runs_is_reported_as_unknown() -> None:
    async def run() -> None:
        async with gated() as (portal, session, _):
            always(portal)
            running = asyncio.Event()

            async def hang(args: dict[str, Any]) -> None:
                running.set()
                await asyncio.sleep(60)

            task = pay(session, hang)
            await running.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (request,) = portal.confirmations.values()
            await eventually(lambda: request["outcome"] == "unknown")
            await eventually(lambda: len(portal.calls) == 1)
            assert next(iter(portal.calls.values()))["status"] == "unknown"
            assert portal.seen("cancel") == []

    asyncio.run(run())


PROGRAM = """
import asyncio, signal, sys
from hookgate import HookContext, HookResult, PreToolUseHook, Runtime

# A shell starts background jobs with SIGINT ignored, and that is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    async with Runtime(sys.argv[1], "hg_test") as runtime:
        async with runtime.session("procurement", conversation_id="c7") as session:
            if sys.argv[2] == "handler":
                task = asyncio.current_task()
                stop = lambda: (runtime.detach(), task.cancel())
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
            async with asyncio.TaskGroup() as calls:
                for n in range(3):
                    calls.create_task(session.call_tool("oa__purchase_pay", {"n": n}, execute=print))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("number", "how"), [(signal.SIGTERM, "plain"), (signal.SIGTERM, "handler"), (signal.SIGINT, "plain")]
)
def test_a_signal_leaves_every_request_pending(number: signal.Signals, how: str) -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest())
            program = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                PROGRAM,
                portal.url,
                how,
                cwd="runtime",
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                requests = await portal.pending(3)
                program.send_signal(number)
                await asyncio.wait_for(program.wait(), 15)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    program.kill()
            assert [item["status"] for item in requests] == ["pending"] * 3
            assert portal.seen("cancel") == []

    asyncio.run(run())


@pytest.mark.parametrize("status", ["pending", "approved"])
def test_leaving_while_the_request_is_posted_waits_for_nothing_and_uses_nothing(status: str) -> None:
    async def run() -> None:
        async with FakePortal() as portal, Runtime(portal.url, KEY, pacing=FAST) as runtime:
            portal.publish(manifest())
            tool = Tool()
            async with runtime.session("procurement", conversation_id="c7") as session:

                def leave(resource: dict[str, Any]) -> None:
                    resource["status"] = status
                    session.leave()

                portal.on_create = leave
                outcome = await asyncio.wait_for(pay(session, tool), 5)
            assert (outcome.status, outcome.blocked_by, tool.runs) == ("cancelled", "approval_gate", [])
            assert (portal.seen("consume"), portal.seen("cancel"), portal.seen("wait")) == ([], [], [])

    asyncio.run(run())


def test_a_call_that_is_cancelled_while_its_request_is_posted_takes_it_back() -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            task = pay(session, tool)

            def give_up(resource: dict[str, Any]) -> None:
                task.cancel()

            portal.on_create = give_up
            with pytest.raises(asyncio.CancelledError):
                await task
            await eventually(lambda: len(portal.seen("cancel")) == 1)
            assert [item["status"] for item in portal.confirmations.values()] == ["cancelled"]
            assert (tool.runs, len(portal.seen("create"))) == ([], 1)

    asyncio.run(run())


def test_closing_the_runtime_ends_what_waits_for_a_registry_without_cancelling_it() -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest())
            tool = Tool()
            async with Runtime(portal.url, KEY, pacing=FAST, timeout=30.0) as runtime:
                session = await runtime.session("procurement").__aenter__()
                asked = len(portal.seen("registry"))
                portal.standing["registry"] = "slow"
                runtime.source("procurement", "chat").invalidate()
                await eventually(lambda: len(portal.seen("registry")) == asked + 1)
                call = asyncio.create_task(session.call_tool("oa__read", {}, execute=tool))
                entering = asyncio.create_task(runtime.session("procurement", surface="api").__aenter__())
                await eventually(lambda: len(portal.seen("registry")) == asked + 2)
            async with asyncio.timeout(5):
                outcome, entered = await asyncio.gather(call, entering)
            assert (outcome.blocked_by, tool.runs) == ("session", [])
            late = await entered.call_tool("oa__read", {}, execute=tool)
            assert (late.blocked_by, tool.runs) == ("session", [])

    asyncio.run(run())
