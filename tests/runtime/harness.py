"""Fixtures of the runtime's tests. Each test brings its own loop with ``asyncio.run``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from hookgate import Runtime
from hookgate.wire.pacing import Pacing

from tests.runtime.fake_portal import KEY, FakePortal

# The product's pauses, shortened: what is tested is what happens, not how long it takes.
FAST = Pacing(
    retry_delays=(0.01, 0.02),
    poll_hold=0.5,
    poll_floor=0.01,
    pause_first=0.01,
    pause_last=0.05,
    grace=0.2,
    cancel_bound=1.0,
    close_bound=2.0,
    detach_grace=0.1,
    log_delay=0.01,
    adopt_every=0.1,
)
USER = {"id": "u42", "name": "Kim", "email": "kim@acme.test"}


class Hands:
    """A monotonic clock in a test's hands."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Tool:
    """A tool that remembers how it was called."""

    def __init__(self, result: Any = "done", error: BaseException | None = None) -> None:
        self.runs: list[dict[str, Any]] = []
        self._result = result
        self._error = error

    async def __call__(self, args: dict[str, Any]) -> Any:
        self.runs.append(args)
        if self._error is not None:
            raise self._error
        return self._result


@contextlib.asynccontextmanager
async def serve(*documents: dict[str, Any], **options: Any) -> AsyncIterator[tuple[FakePortal, Runtime]]:
    """A fake portal with these registries, and a runtime that talks to it."""
    options = {"pacing": FAST, "timeout": 1.0, "name": "worker-1", **options}
    async with FakePortal() as portal:
        for document in documents:
            portal.publish(document)
        async with Runtime(portal.url, KEY, **options) as runtime:
            yield portal, runtime


async def eventually(condition: Any, seconds: float = 5.0) -> None:
    """Wait until ``condition()`` holds, or fail."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  (what is awaited has no event of its own)
            await asyncio.sleep(0.005)
