"""What a whole tool call costs with the three hooks that every agent has, beside awaiting the tool alone."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from hookgate import Runtime
from hookgate.session.session import Session

from benchmarks.measure import Figure, alternate, typical
from tests.runtime.documents import manifest

ROUNDS = 7
SECONDS = 0.1
ARGS = {"amount": 60000, "card_number": "4111", "note": "for the office in the third floor"}


def run() -> list[Figure]:
    """Microseconds a call that needs no approval: its mark and its entry on disk, the portal costs nothing."""
    with TemporaryDirectory(prefix="hookgate-bench-") as folder:
        ours, baseline = alternate(
            lambda: asyncio.run(_calls(folder)),
            lambda: asyncio.run(typical(lambda: read(ARGS), seconds=SECONDS)),
            rounds=ROUNDS,
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
            return _streamed(200, document)
        return _streamed(202, {"accepted": 1, "duplicates": 0})

    transport = httpx.MockTransport(answer)
    async with (
        Runtime("http://127.0.0.1", "hg_bench", spool=folder, transport=transport) as runtime,
        runtime.session("procurement", user={"id": "u42", "name": "Kim"}) as made,
    ):
        yield made


def _streamed(status: int, body: Any) -> httpx.Response:
    """As from a socket: not read yet."""
    return httpx.Response(status, stream=httpx.ByteStream(json.dumps(body).encode()))


async def _calls(folder: str) -> float:
    async with session(folder) as made:
        return await typical(lambda: made.call_tool("oa__read", ARGS, execute=read), seconds=SECONDS)
