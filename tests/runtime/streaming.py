"""Sessions whose agent has an event stream."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from hookgate import Runtime
from hookgate.session.session import Session

from tests.runtime.documents import manifest
from tests.runtime.fake_portal import FakePortal
from tests.runtime.harness import FAST, USER, Tool, eventually, serve

# Nothing but an event can be the cause of what happens within a test.
PACING = replace(FAST, stream_delay=0.0, stream_last=0.2, stream_refused=0.2, poll_hold=20.0, grace=20.0)
ALONE = replace(PACING, read_every=600.0)


@contextlib.asynccontextmanager
async def streamed(
    document: Any = None, kind: str = "ok", **options: Any
) -> AsyncIterator[tuple[FakePortal, Runtime, Session]]:
    """A session whose agent has a stream, up where ``kind`` is ``ok``."""
    options = {"pacing": ALONE, **options}
    async with serve(document or manifest(), **options) as (portal, runtime):
        portal.events.kind = kind
        async with runtime.session("procurement", user=USER, conversation_id="c7") as session:
            if kind == "ok":
                await eventually(lambda: runtime.feed("procurement").healthy)
            yield portal, runtime, session


async def run_tool(session: Session, name: str = "oa__read") -> str | None:
    return (await session.call_tool(name, {}, execute=Tool())).blocked_by


async def run_until(session: Session, blocked_by: str | None) -> None:
    async with asyncio.timeout(5):
        while await run_tool(session) != blocked_by:  # noqa: ASYNC110  (what is awaited has no event of its own)
            await asyncio.sleep(0.01)


async def approve(portal: FakePortal, **changes: Any) -> str:
    (request,) = await portal.pending()
    await portal.settle(request["id"], "approved", **changes)
    return str(request["id"])


def tell(portal: FakePortal, request_id: str, status: str = "approved") -> None:
    portal.events.send("procurement", "confirmation", {"id": request_id, "status": status})
