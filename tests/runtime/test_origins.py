"""What is meant for the program passes, and what hooks, tools and callbacks raise or swallow holds nobody up."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hookgate import HookContext, HookResult, PreToolUseHook, SyncRuntime
from hookgate.hook import Hook

from tests.runtime.documents import manifest
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.gating import ARGS, always, gated
from tests.runtime.harness import FAST, Tool, eventually, serve
from tests.runtime.test_sync import sync_portal

__all__ = ["sync_portal"]

ROOT = Path(__file__).resolve().parents[2]


class TaskLimit(Exception):
    """As a task queue raises it from its handler of SIGUSR1."""


@contextmanager
def handling(number: int, handler: Any) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def limit(signum: int, frame: Any) -> None:
    raise TaskLimit("time is over")


def leave(signum: int, frame: Any) -> None:
    sys.exit(0)


def once(*given: Any) -> None:
    """Takes itself down first, so that the second signal ends the program."""
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    raise SystemExit(3)


class Handlers:
    def method(self, signum: int, frame: Any) -> None:
        # What a handler was called with may be gone.
        del frame
        self._raise()

    def _raise(self) -> None:
        raise TaskLimit("from a method")

    def __call__(self, signum: int, frame: Any) -> None:
        raise BaseExceptionGroup("g", [TaskLimit()])


MEANT: list[tuple[int, Any, type[BaseException]]] = [
    (signal.SIGUSR1, limit, TaskLimit),
    (signal.SIGUSR1, leave, SystemExit),
    (signal.SIGUSR1, once, SystemExit),
    (signal.SIGUSR1, Handlers().method, TaskLimit),
    (signal.SIGUSR1, Handlers(), BaseExceptionGroup),
    (signal.SIGALRM, limit, TaskLimit),
    (signal.SIGINT, signal.default_int_handler, KeyboardInterrupt),
]


def interrupted(number: int) -> Callable[[Any], Any]:
    def tool(args: Any) -> str:
        for _ in range(3):
            signal.raise_signal(number)
        return "not reached"

    return tool


def exiting(args: Any) -> Any:
    """Makes an exit of Ctrl-C, as command lines do."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        sys.exit(130)


def sync_call(portal: FakePortal, tool: Any) -> Any:
    portal.publish(manifest())
    always(portal)
    with (
        SyncRuntime(portal.url, KEY, pacing=FAST, name="worker-1") as runtime,
        runtime.session("procurement") as session,
    ):
        return session.call_tool("oa__purchase_pay", ARGS, execute=tool)


def test_a_signal_meant_for_the_program_passes_and_the_outcome_is_unknown(sync_portal: FakePortal) -> None:
    for number, handler, kind in MEANT:
        sync_portal.confirmations.clear()
        with handling(number, handler), pytest.raises(kind):
            sync_call(sync_portal, interrupted(number))
        (asked,) = sync_portal.confirmations.values()
        assert asked["outcome"] == "unknown", (number, handler)
    with handling(signal.SIGINT, signal.default_int_handler), pytest.raises(SystemExit):
        sync_call(sync_portal, exiting)


def test_a_limit_that_a_tool_sets_itself_is_the_tools(sync_portal: FakePortal) -> None:
    def tool(args: Any) -> str:
        with handling(signal.SIGALRM, limit):
            signal.raise_signal(signal.SIGALRM)
        return "not reached"

    outcome = sync_call(sync_portal, tool)
    assert (outcome.status, outcome.error) == ("failed", "TaskLimit: time is over")


def test_a_frame_among_the_arguments_makes_no_signal_of_an_error(sync_portal: FakePortal) -> None:
    def look(frame: Any, depth: int) -> None:
        raise SystemExit(depth)

    outcome = sync_call(sync_portal, lambda args: look(sys._getframe(), 2))
    assert (outcome.status, outcome.error) == ("failed", "SystemExit: 2")


def test_a_time_limit_passes_through_an_async_tool_and_through_a_hook() -> None:
    async def tool(args: Any) -> None:
        await asyncio.sleep(0)
        signal.raise_signal(signal.SIGUSR1)

    class Signalled(PreToolUseHook):
        async def execute(self, ctx: HookContext) -> HookResult:
            signal.raise_signal(signal.SIGUSR1)
            return HookResult()

    async def run(*hooks: Hook) -> None:
        async with gated() as (portal, session, _):
            always(portal)
            for hook in hooks:
                session.hooks.register(hook)
            with pytest.raises(TaskLimit):
                await session.call_tool("oa__purchase_pay", ARGS, execute=tool)
            await eventually(
                lambda: hooks or [r["outcome"] for r in portal.confirmations.values()] == ["unknown"]
            )

    with handling(signal.SIGUSR1, limit):
        asyncio.run(run())
        asyncio.run(run(Signalled()))


ENDS: list[Any] = [
    SystemExit(1), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), BaseException("b"), StopIteration(),
    ExceptionGroup("g", [ValueError()]), BaseExceptionGroup("g", [SystemExit()]), TimeoutError(), MemoryError(),
]  # fmt: skip


@pytest.mark.parametrize("waits", [False, True])
def test_whatever_a_hook_raises_is_its_failure(waits: bool) -> None:
    class Raises(PreToolUseHook):
        name = "raises"
        error: BaseException

        def should_trigger(self, ctx: HookContext) -> bool:
            if ctx.tool_args:
                raise self.error
            return True

        async def execute(self, ctx: HookContext) -> HookResult:
            raise self.error

    class RaisesLater(Raises):
        async def execute(self, ctx: HookContext) -> HookResult:
            await asyncio.sleep(0)
            raise self.error

    async def run() -> None:
        async with gated() as (_, session, tool):
            session.hooks.register(hook := RaisesLater() if waits else Raises())
            for hook.error in ENDS:
                for args in ({}, {"a": 1}):
                    outcome = await session.call_tool("oa__read", args, execute=tool)
                    assert (outcome.blocked_by, tool.runs) == ("raises", []), hook.error
                    assert "failed" in (outcome.reason or "")

    asyncio.run(run())


def test_a_hook_whose_question_is_async_has_failed_and_is_not_taken_for_a_yes() -> None:
    class Asks(PreToolUseHook):
        name = "asks"

        async def should_trigger(self, ctx: HookContext) -> bool:  # type: ignore[override]
            return False

        async def execute(self, ctx: HookContext) -> HookResult:
            return HookResult()

    async def run() -> None:
        async with gated() as (_, session, tool):
            session.hooks.register(Asks())
            outcome = await session.call_tool("oa__read", {}, execute=tool)
            assert (outcome.blocked_by, "should_trigger" in (outcome.reason or "")) == ("asks", True)

    asyncio.run(run())


def test_whatever_a_callback_raises_or_never_returns_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hookgate.engine.callbacks._SECONDS", 0.05)

    def raising(error: BaseException) -> Any:
        def show(event: Any) -> None:
            raise error

        return show

    async def later(event: Any) -> None:
        await asyncio.sleep(0)
        raise SystemExit(1)

    async def hanging(event: Any) -> None:
        await asyncio.Event().wait()

    def generator(event: Any) -> Any:
        yield event

    async def run() -> None:
        async with serve(manifest()) as (portal, runtime):
            always(portal)
            for show in (*map(raising, ENDS), later, hanging, generator):
                async with runtime.session("procurement", on_event=show) as session:
                    outcome = await session.call_tool("oa__purchase_pay", ARGS, execute=Tool("paid"))
                    assert outcome.status == "succeeded"

    asyncio.run(run())
    assert caplog.text.count("on_event failed") == len(ENDS) + 3


def test_a_plain_generator_stops_when_its_call_is_cancelled() -> None:
    closed = threading.Event()

    async def run() -> None:
        began = asyncio.Event()
        loop = asyncio.get_running_loop()

        def tool(args: Any) -> Iterator[int]:
            try:
                for number in range(10**9):
                    loop.call_soon_threadsafe(began.set)
                    yield number
                    time.sleep(0.001)
            finally:
                closed.set()

        async with gated() as (_, session, _tool):
            calling = asyncio.create_task(session.call_tool("oa__read", {}, execute=tool))
            await began.wait()
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            assert await asyncio.to_thread(closed.wait, 5)

    asyncio.run(run())


SIBLINGS = """
import asyncio, argparse
from tests.runtime.documents import manifest
from tests.runtime.harness import Tool, serve

def command(args):
    argparse.ArgumentParser(prog="pay").parse_args(["--wrong"])

async def exits(args):
    await asyncio.sleep(0.01)
    raise SystemExit(9)

async def main():
    async with serve(manifest()) as (_, runtime), runtime.session("procurement") as session:
        async def slow(args):
            await asyncio.sleep(0.2)
            return "slow"
        tools = [command, exits, slow, slow]
        ends = await asyncio.gather(*(session.call_tool("oa__read", {}, execute=tool) for tool in tools))
        print([end.status for end in ends])

asyncio.run(main())
print("ended")
"""


def test_a_tool_that_exits_takes_nobody_with_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIBLINGS], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines() == ["['failed', 'failed', 'succeeded', 'succeeded']", "ended"], (
        done.stderr[-800:]
    )
