"""What a whole tool call costs with the three hooks that every agent has, beside awaiting the tool alone."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from hookgate import Runtime
from hookgate.session import Session

from benchmarks.measure import Figure, alternate
from tests.runtime.documents import manifest

ROUNDS = 7
BATCHES = 30
ARGS = {"amount": 60000, "card_number": "4111", "note": "for the office in the third floor"}


def run() -> list[Figure]:
    """Microseconds a call that needs no approval: its mark and its entry on disk, the portal costs nothing."""
    with TemporaryDirectory(prefix="hookgate-bench-") as folder:
        ours, baseline = alternate(
            lambda: asyncio.run(_calls(folder)), lambda: asyncio.run(_time(lambda: read(ARGS))), rounds=ROUNDS
        )
    return [Figure("call_tool", ours, baseline, "µs", "ours ≤ 500 µs (the tool alone)", met=ours <= 500)]


async def read(args: dict[str, Any]) -> str:
    """The tool."""
    return json.dumps(args)


@asynccontextmanager
async def session(folder: str) -> AsyncIterator[Session]:
    """A session whose portal answers at once, in this process."""
    document = manifest()

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/registry"):
            return httpx.Response(200, json=document)
        return httpx.Response(202, json={"accepted": 1, "duplicates": 0})

    transport = httpx.MockTransport(answer)
    async with (
        Runtime("http://portal.test", "hg_bench", spool=folder, transport=transport) as runtime,
        runtime.session("procurement", user={"id": "u42", "name": "Kim"}) as made,
    ):
        yield made


async def _calls(folder: str) -> float:
    async with session(folder) as made:
        return await _time(lambda: made.call_tool("oa__read", ARGS, execute=read))


async def _time(work: Callable[[], Any]) -> float:
    """The median of batches, so that sending entries beside the calls and a busy machine count little."""
    batches = []
    for _ in range(BATCHES):
        started = time.perf_counter()
        for _ in range(5):
            await work()
        batches.append(time.perf_counter() - started)
        await asyncio.sleep(0)
    return median(batches) / 5 * 1e6
