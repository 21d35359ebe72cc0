"""The sync runtime."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hookgate import SyncRuntime

from tests.runtime.documents import hook, manifest
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.harness import FAST, USER


@pytest.fixture
def sync_portal() -> Iterator[FakePortal]:
    """A fake portal on a loop in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    portal = asyncio.run_coroutine_threadsafe(_open(), loop).result()
    yield portal
    asyncio.run_coroutine_threadsafe(_close(portal), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def _open() -> FakePortal:
    return await FakePortal().__aenter__()


async def _close(portal: FakePortal) -> None:
    await portal.stop()
    # Connections that clients have left open.
    serving = asyncio.all_tasks() - {asyncio.current_task()}
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)


def test_the_sync_runtime_does_the_same(sync_portal: FakePortal) -> None:
    portal = sync_portal
    portal.publish(
        manifest(hook("session_context", params={"text": "{user}"}), may_delegate_to=["procurement"])
    )
    portal.on_create = lambda resource: resource.update(
        status="approved" if resource["tool_args"]["amount"] < 10 else "rejected"
    )
    threads: list[str] = []

    def paying(args: dict[str, Any]) -> str:
        threads.append(threading.current_thread().name)
        return f"paid {args['amount']}"

    async def paying_async(args: dict[str, Any]) -> str:
        return "paid async"

    with (
        SyncRuntime(portal.url, KEY, pacing=FAST) as runtime,
        runtime.session("procurement", user=USER) as session,
    ):
        assert session.context == "Kim"
        outcome = session.call_tool("oa__purchase_pay", {"amount": 5}, execute=paying)
        assert (outcome.result, threads) == ("paid 5", [threading.current_thread().name])
        assert (
            session.call_tool("oa__purchase_pay", {"amount": 50}, execute=paying).blocked_by
            == "approval_gate"
        )
        assert session.call_tool("oa__read", {"amount": 5}, execute=paying_async).result == "paid async"
        assert session.call_tool("oa__read", {}, execute=lambda args: args["x"]).error == "KeyError: 'x'"
        assert session.emit("UserPromptSubmit", prompt="x").allow
        assert not session.cancel("nothing")
        with session.delegate("procurement") as child:
            assert child.call_tool("oa__read", {"amount": 1}, execute=paying).result == "paid 1"
    assert len(portal.calls) == 5


def test_an_outcome_is_sent_before_the_runtime_closes(sync_portal: FakePortal) -> None:
    portal = sync_portal
    portal.publish(manifest())
    portal.on_create = lambda resource: resource.update(status="approved")
    portal.fail("outcome", "500", "500")
    with SyncRuntime(portal.url, KEY, pacing=FAST) as runtime, runtime.session("procurement") as session:
        assert session.call_tool("oa__purchase_pay", {}, execute=lambda args: 1).result == 1
    assert [item["outcome"] for item in portal.confirmations.values()] == ["succeeded"]
