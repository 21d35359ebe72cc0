"""How programs with the sync runtime end, and where it refuses to work: signals, threads, loops, forks, neglect."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hookgate import SyncRuntime
from hookgate.engine.threads import AbandonableThreads
from hookgate.sync.loopthread import LoopGone

from tests.machinery.live import until
from tests.runtime.documents import manifest
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.harness import FAST, USER
from tests.runtime.test_sync import sync_portal

__all__ = ["sync_portal"]

SECONDS = 20.0  # a stuck thread or program fails its test after so many


@contextmanager
def start(program: str, portal: FakePortal, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program of its own that has ``URL`` and ``KEY``; with what it forks it is gone after the block."""
    text = f"URL, KEY = {portal.url!r}, {KEY!r}\nfrom hookgate import SyncRuntime\n" + textwrap.dedent(
        program
    )
    process = subprocess.Popen(
        [sys.executable, *options, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A test run in the background ignores Ctrl-C, and so would everything below it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


WAITING = """
import time
with SyncRuntime(URL, KEY) as runtime, runtime.session("procurement", conversation_id="c7") as session:
    try:
        session.call_tool("oa__purchase_pay", {"amount": 60000}, execute=print, tool_call_id="call_01")
    finally:
        time.sleep(0.4)  # longer than a cancelled call waits for its session to be left
"""


def test_ctrl_c_detaches_and_the_next_start_takes_the_request_up(sync_portal: FakePortal) -> None:
    sync_portal.publish(manifest())
    with start(WAITING, sync_portal) as program:
        (request,) = until(lambda: list(sync_portal.confirmations.values()), what="the request")
        until(lambda: sync_portal.seen("wait"), what="the wait for people")
        program.send_signal(signal.SIGINT)
        printed, errors = program.communicate(timeout=SECONDS)
    assert (program.returncode, printed) == (-signal.SIGINT, "")
    # What Python itself says of a Ctrl-C that nobody catches, and no more.
    assert errors.startswith("Traceback (most recent call last):\n")
    assert errors.endswith("\nKeyboardInterrupt\n")
    assert errors.count("Traceback") == 1
    assert (request["status"], sync_portal.seen("cancel")) == ("pending", [])
    request.update(status="approved")
    with (
        SyncRuntime(sync_portal.url, KEY, pacing=FAST) as runtime,
        runtime.session("procurement", conversation_id="c7") as session,
    ):
        outcome = session.call_tool(
            "oa__purchase_pay", {"amount": 60000}, execute=lambda args: "paid", tool_call_id="call_01"
        )
    assert (outcome.result, len(sync_portal.confirmations)) == ("paid", 1)


def test_threads_share_a_session_and_each_runs_its_own_tools(sync_portal: FakePortal) -> None:
    sync_portal.publish(manifest())
    sync_portal.on_create = lambda resource: resource.update(status="approved")

    def work(session: Any, number: int) -> tuple[str, bool]:
        ran: list[str] = []

        def pay(args: dict[str, Any]) -> str:
            ran.append(threading.current_thread().name)
            return f"paid {args['amount']}"

        outcome = session.call_tool("oa__purchase_pay", {"amount": number}, execute=pay)
        return outcome.result, ran == [threading.current_thread().name]

    with (
        SyncRuntime(sync_portal.url, KEY, pacing=FAST) as runtime,
        runtime.session("procurement", user=USER) as session,
        ThreadPoolExecutor(8) as pool,
    ):
        found = list(pool.map(lambda number: work(session, number), range(24)))
    assert found == [(f"paid {number}", True) for number in range(24)]


def test_leaving_frees_the_threads_that_wait_and_those_that_run_a_tool(sync_portal: FakePortal) -> None:
    sync_portal.publish(manifest())
    running, over = threading.Event(), threading.Event()

    def tool(args: dict[str, Any]) -> str:
        running.set()
        over.wait(SECONDS)
        return "late"

    pool = AbandonableThreads(2, "test")
    with SyncRuntime(sync_portal.url, KEY, pacing=FAST) as runtime:
        session = runtime.session("procurement").__enter__()
        waits = pool.submit(session.call_tool, "oa__purchase_pay", {}, execute=print)
        runs = pool.submit(session.call_tool, "oa__read", {}, execute=tool)
        until(lambda: sync_portal.seen("wait"), what="the wait for people")
        assert running.wait(SECONDS)
    assert waits.result(SECONDS).status == "cancelled"
    over.set()
    with pytest.raises(LoopGone, match="was left while"):
        runs.result(SECONDS)
    assert [item["status"] for item in sync_portal.confirmations.values()] == ["pending"]
    with pytest.raises(RuntimeError, match="the runtime was left"):
        session.call_tool("oa__read", {}, execute=print)
    session.__exit__(None, None, None)


def test_a_thread_with_a_loop_of_its_own_is_refused(sync_portal: FakePortal) -> None:
    sync_portal.publish(manifest())

    async def enter() -> None:
        with SyncRuntime(sync_portal.url, KEY):
            raise AssertionError("entered")

    with pytest.raises(RuntimeError, match=r"use Runtime with async with, or call it by asyncio\.to_thread"):
        asyncio.run(enter())
    with (
        SyncRuntime(sync_portal.url, KEY, pacing=FAST) as runtime,
        runtime.session("procurement") as session,
    ):

        async def nested(args: dict[str, Any]) -> Any:
            return session.call_tool("oa__read", {}, execute=print)

        async def within() -> Any:
            return await asyncio.to_thread(session.call_tool, "oa__read", {}, execute=lambda args: 1)

        # On the runtime's own loop it would wait for itself.
        outcome = session.call_tool("oa__read", {}, execute=nested)
        assert outcome.error is not None
        assert "would block the event loop" in outcome.error
        assert asyncio.run(within()).result == 1


FORKING = """
import os
early = SyncRuntime(URL, KEY)

def child():
    try:
        session.call_tool("oa__read", {}, execute=print)
    except RuntimeError as error:
        print(error, flush=True)
    with early as mine, mine.session("procurement") as own:
        print(own.call_tool("oa__read", {}, execute=lambda args: "own").result, flush=True)

with SyncRuntime(URL, KEY) as runtime, runtime.session("procurement") as session:
    number = os.fork()
    if number == 0:
        child()
    else:
        os.waitpid(number, 0)
        print(session.call_tool("oa__read", {}, execute=lambda args: "parent's").result, flush=True)
print("left", flush=True)
"""


def test_a_child_of_a_fork_is_told_and_uses_one_of_its_own(sync_portal: FakePortal) -> None:
    """As with a server that loads the program and then forks its workers. Both leave the ``with`` of the parent."""
    sync_portal.publish(manifest())
    with start(FORKING, sync_portal) as program:
        printed, errors = program.communicate(timeout=SECONDS)
    assert (program.returncode, errors) == (0, "")
    refused, *rest = printed.splitlines()
    assert "entered before the process was forked" in refused
    assert rest == ["own", "left", "parent's", "left"]


FORGETTING = """
import gc
def use(runtime):
    with runtime.session("procurement") as session:
        return session.call_tool("oa__read", {}, execute=lambda args: "read").result

print(use(SyncRuntime(URL, KEY).__enter__()))
gc.collect()
print("forgotten", flush=True)
kept = SyncRuntime(URL, KEY).__enter__()
print(use(kept))
"""


def test_a_runtime_that_is_forgotten_warns_and_keeps_no_process_alive(sync_portal: FakePortal) -> None:
    sync_portal.publish(manifest())
    with start(FORGETTING, sync_portal, "-W", "always:a SyncRuntime was never left") as program:
        printed, errors = program.communicate(timeout=SECONDS)
    assert (program.returncode, printed) == (0, "read\nforgotten\nread\n")
    assert errors.count("ResourceWarning: a SyncRuntime was never left; use it as with") == 2
    assert "Traceback" not in errors
    assert "never retrieved" not in errors
    assert "destroyed" not in errors
