"""Sessions whose payments wait for people."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from hookgate import Outcome
from hookgate.session.session import Session

from tests.runtime.documents import manifest
from tests.runtime.fake_portal import FakePortal
from tests.runtime.harness import USER, Tool, serve

ARGS = {"amount": 60000}


@contextlib.asynccontextmanager
async def gated(document: Any = None, **options: Any) -> AsyncIterator[tuple[FakePortal, Session, Tool]]:
    """A session whose payments wait for people."""
    async with (
        serve(document or manifest(), **options) as (portal, runtime),
        runtime.session("procurement", user=USER, conversation_id="c7") as session,
    ):
        yield portal, session, Tool("paid")


def pay(session: Session, tool: Any, **options: Any) -> asyncio.Task[Outcome]:
    options = {"tool_call_id": "call_01", **options}
    return asyncio.create_task(session.call_tool("oa__purchase_pay", ARGS, execute=tool, **options))


def always(portal: FakePortal, **changes: Any) -> None:
    """Approve whatever is asked, at once."""
    portal.on_create = lambda resource: resource.update(status="approved", **changes)
