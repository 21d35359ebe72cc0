"""A child of a fork holds nothing of its parent's: no lock, no connection. Real forks, in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hookgate import Runtime

from tests.runtime.documents import READ, manifest
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.harness import FAST, eventually

# The parent has made a call, whose entry the portal doesn't take; its child outlives it.
PARENT = """
import os, sys, time
from hookgate import SyncRuntime
from hookgate.wire.pacing import Pacing

def fork_plain(work):
    if os.fork() == 0:
        work()

def fork_by_multiprocessing(work):
    import multiprocessing
    multiprocessing.get_context("fork").Process(target=work).start()

url, key, way = sys.argv[1:]
with SyncRuntime(url, key, pacing=Pacing(stream_delay=0.01)) as runtime, runtime.session("procurement") as session:
    print(session.call_tool("oa__read", {}, execute=lambda args: "ran").result, flush=True)

    def child():
        own = SyncRuntime(url, key)
        try:
            session.call_tool("oa__read", {}, execute=lambda args: "ran")
        except RuntimeError as error:
            print("refused:", error, flush=True)
        with own, own.session("procurement") as mine:
            print("child", mine.call_tool("oa__read", {}, execute=lambda args: "ran").result, flush=True)
        print("pid", os.getpid(), flush=True)
        time.sleep(60)
        os._exit(0)

    sys.stdin.readline()
    {"fork": fork_plain, "multiprocessing": fork_by_multiprocessing}[way](child)
    time.sleep(60)
"""


async def take_up(portal: FakePortal, folder: Path) -> None:
    # Its streams end with it: nobody else holds them open.
    await eventually(lambda: not portal.events.open.get("procurement"))
    portal.standing.clear()
    async with (
        Runtime(portal.url, KEY, pacing=FAST, spool=folder) as runtime,
        runtime.session("procurement"),
    ):
        # The parent's entry and the child's.
        await eventually(lambda: len(portal.calls) == 2)


@pytest.mark.parametrize("way", ["fork", "multiprocessing"])
def test_what_a_killed_parent_left_is_taken_up_while_its_child_lives(way: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest(tools=[READ]))
            portal.events.kind = "ok"
            portal.standing["calls"] = "503"
            parent = await asyncio.create_subprocess_exec(
                sys.executable, "-c", PARENT, portal.url, KEY, way,
                env={**os.environ, "HOOKGATE_SPOOL_DIR": str(tmp_path)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            assert parent.stdout is not None
            assert parent.stdin is not None
            lines = parent.stdout
            child = 0
            try:
                assert await lines.readline() == b"ran\n"
                # The parent listens, so that it holds connections when it forks.
                await eventually(lambda: portal.events.open.get("procurement"))
                parent.stdin.write(b"\n")
                said = [(await lines.readline()).decode() for _ in range(3)]
                assert said[0].startswith("refused: this runtime was entered before the process was forked")
                assert said[1] == "child ran\n"
                child = int(said[2].split()[1])
                parent.kill()
                # Not `wait`, which waits for the child too: that holds the pipe.
                await eventually(lambda: parent.returncode is not None)
                await take_up(portal, tmp_path)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    parent.kill()
                if child:
                    os.kill(child, signal.SIGKILL)
                    # Nobody holds the pipes any more.
                    await parent.communicate()

    asyncio.run(run())


def test_a_child_keeps_what_has_the_number_of_a_file_that_was_closed(tmp_path: Path) -> None:
    from hookgate.journal.segment import Segment
    from hookgate.journal.spoolfolder import Owner

    segment = Segment.create(tmp_path, "http://127.0.0.1", Owner("acme", "procurement"))
    segment.remove()
    # The lowest free number is the one that it had.
    with (tmp_path / "log").open("w+b", buffering=0) as log:
        child = os.fork()
        if child == 0:
            log.write(b"said")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        log.seek(0)
        assert log.read() == b"said"
    segment.close()


def test_a_child_removes_and_closes_nothing_of_its_parents(tmp_path: Path) -> None:
    from hookgate.journal.segment import Segment
    from hookgate.journal.spoolfolder import Owner

    segment = Segment.create(tmp_path, "http://127.0.0.1", Owner("acme", "procurement"))
    before = segment.size
    child = os.fork()
    if child == 0:
        status: Any = 1
        try:
            segment.append(b"ended   ", b"{}")
            segment.remove()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert segment.path.stat().st_size == before
    segment.append(b"ended   ", b"{}")
    assert segment.path.stat().st_size > before
    segment.remove()
