"""What a runtime has begun ends with it: tasks, streams, threads; with nothing to complain about."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hookgate import Runtime, SyncRuntime

from tests.runtime.documents import manifest
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.gating import ARGS, pay
from tests.runtime.harness import USER, Tool, eventually
from tests.runtime.streaming import PACING
from tests.runtime.test_sync import sync_portal

__all__ = ["sync_portal"]

WAYS = ["sessions first", "runtime first", "cancelled"]


@contextmanager
def without_complaint(caplog: pytest.LogCaptureFixture) -> Iterator[list[Any]]:
    """Fails when a task was destroyed, an exception was lost, or asyncio says so."""
    complaints: list[Any] = []
    yield complaints
    gc.collect()
    said = [record.getMessage() for record in caplog.records if record.name == "asyncio"]
    assert complaints == []
    assert [text for text in said if "destroyed" in text or "never" in text] == []


async def work(portal: FakePortal, way: str) -> None:
    """A runtime with a stream and calls that wait, and its end in one of several ways."""
    async with Runtime(portal.url, KEY, pacing=PACING) as runtime:
        feed = runtime.feed("procurement")
        async with (
            runtime.session("procurement", user=USER) as session,
            runtime.session("procurement", surface="api", user=USER) as other,
        ):
            await eventually(lambda: feed.healthy or portal.events.kind != "ok")
            calls = [pay(on, Tool(), tool_call_id=f"{n}") for n in range(12) for on in (session, other)]
            await portal.pending(24)
            portal.standing["registry"] = "slow"
            runtime.source("procurement", "chat").invalidate()
            if way == "runtime first":
                await runtime.aclose()
            elif way == "cancelled":
                raise asyncio.CancelledError
        outcomes = await asyncio.gather(*calls)
        assert {outcome.status for outcome in outcomes} == {"cancelled"}


@pytest.mark.parametrize("kind", ["ok", "404", "silent", "503"])
@pytest.mark.parametrize("way", WAYS)
def test_leaving_leaves_nothing_behind(way: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def run(complaints: list[Any]) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with FakePortal() as portal:
            portal.publish(manifest())
            portal.events.kind = kind
            before = asyncio.all_tasks()
            try:
                await work(portal, way)
            except asyncio.CancelledError:
                assert way == "cancelled"
            # What is left belongs to the portal, which notices that its clients are gone.
            left = [task for task in asyncio.all_tasks() - before if "FakePortal" not in repr(task)]
            await eventually(lambda: all(task.done() for task in left), 2)
            await eventually(lambda: not any(portal.events.open.values()))

    with without_complaint(caplog) as complaints:
        asyncio.run(run(complaints), debug=True)


def test_the_sync_runtime_ends_its_stream_and_its_thread(
    sync_portal: FakePortal, caplog: pytest.LogCaptureFixture
) -> None:
    portal = sync_portal
    portal.publish(manifest())
    portal.events.kind = "ok"
    with without_complaint(caplog):
        with SyncRuntime(portal.url, KEY, pacing=PACING) as runtime:
            with runtime.session("procurement", user=USER) as session:
                assert session.call_tool("oa__read", {}, execute=lambda args: 1).result == 1
                waiting = threading.Thread(
                    target=lambda: session.call_tool("oa__purchase_pay", ARGS, execute=lambda args: 1)
                )
                waiting.start()
                asyncio.run(
                    eventually(lambda: portal.seen("create") and portal.events.open.get("procurement"))
                )
            waiting.join(5)
            assert not waiting.is_alive()
        asyncio.run(eventually(lambda: portal.events.open["procurement"] == []))
    assert "hookgate-loop" not in [thread.name for thread in threading.enumerate()]
