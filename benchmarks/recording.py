"""The call log: what keeping it on disk costs a call, and how fast the portal takes it."""

import asyncio
import json
import time
from collections.abc import Callable
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from hookgate import Runtime
from hookgate.journal.spool import Kept, Owner, Shelf, Spool
from hookgate.session.session import Session

from benchmarks.measure import Figure, alternate
from benchmarks.stage import Stage
from tests.runtime.documents import manifest

ROUNDS = 7
CALLS = 300
# Microseconds on top of a call whose entry is kept in memory alone.
ALLOWANCE = 250


class Nowhere(Shelf):
    """Keeps entries in memory."""

    def check(self) -> None:
        """There is always room."""

    def end(self, call_id: str, text: bytes) -> Kept:
        """Only the text."""
        return Kept(call_id, None, 0, len(text), text)

    def collect(self) -> Any:
        """Nobody leaves anything behind."""
        return []


class Memory(Spool):
    """A spool that writes nothing."""

    def shelf(self, owner: Owner) -> Shelf:
        """A new one; it holds nothing itself."""
        return Nowhere(self, owner)


def run(stage: Stage) -> list[Figure]:
    """Microseconds a call, and rows a second."""
    pairs = stage.inside("benchmarks.recorder")
    ours, bare = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    met = ours >= 0.5 * bare
    return [
        *spooling(),
        Figure("audit_log", ours, bare, "rows/s", "≥ 0.5 × a bare bulk_create", met=met),
    ]


def spooling() -> list[Figure]:
    """A whole call with its entry on disk, beside one with its entry in memory; the portal costs nothing."""
    with TemporaryDirectory(prefix="hookgate-bench-") as folder:
        ours, baseline = alternate(
            lambda: asyncio.run(_call(folder, lambda session: None)),
            lambda: asyncio.run(_call(folder, _forget)),
            rounds=ROUNDS,
        )
    met = ours - baseline <= ALLOWANCE
    return [Figure("audit_log_spool", ours, baseline, "µs", f"ours − baseline ≤ {ALLOWANCE} µs", met=met)]


def _forget(session: Session) -> None:
    log = session.process.call_log
    log.spool = Memory(log.spool.root, session.process.portal.url)
    session.mark = lambda call, status: None  # type: ignore[method-assign]


async def _call(folder: str, change: Callable[[Session], None]) -> float:
    document = manifest()

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/registry"):
            return httpx.Response(200, json=document)
        return httpx.Response(202, json={"accepted": 1, "duplicates": 0})

    async def pay(args: dict[str, Any]) -> str:
        return json.dumps(args)

    async with (
        Runtime(
            "http://127.0.0.1", "hg_bench", spool=folder, transport=httpx.MockTransport(answer)
        ) as runtime,
        runtime.session("procurement", user={"id": "u42", "name": "Kim"}) as session,
    ):
        change(session)
        args = {"amount": 60000, "card_number": "4111", "note": "for the office in the third floor"}
        started = time.perf_counter()
        for _ in range(CALLS):
            await session.call_tool("oa__read", args, execute=pay)
        return (time.perf_counter() - started) / CALLS * 1e6
