"""What 1,000 agents cost that ask every 15 seconds whether their registry still holds, beside a bare view."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.measure import Figure
from benchmarks.serving import BARE
from benchmarks.stage import Stage
from benchmarks.wire import Wire

AGENTS = 1000
EVERY = 15.0  # seconds
SECONDS = 20.0

Ask = Callable[[int], Awaitable[None]]


def run(stage: Stage, agents: list[tuple[str, str]]) -> list[Figure]:
    """Per cent of one core that the portal's process takes. ``agents`` are slugs and the ETags that are held."""
    _await_minute()
    ours = asyncio.run(_load(stage, lambda n: _poll(stage, *agents[n % len(agents)])))
    bare = asyncio.run(_load(stage, lambda n: _look(stage)))
    return [Figure("cpu_of_1000_polling_agents", ours, bare, "% of a core", "beside a bare view", met=True)]


def _await_minute() -> None:
    """Stay within the minute for which the agents were prepared, or wait for all to be due: never half and half."""
    if time.time() % 60 > 60 - SECONDS - 2:
        time.sleep(60 - time.time() % 60)


async def _load(stage: Stage, ask: Ask) -> float:
    """Ask at an even pace, whatever the answers take. A machine that can't keep up takes longer; the share is of the
    time that so many questions are meant for."""
    asked: list[asyncio.Task[None]] = []
    cpu, started = _cpu(stage.pid), time.monotonic()
    for number in range(int(SECONDS * AGENTS / EVERY)):
        await asyncio.sleep(max(0.0, started + number * EVERY / AGENTS - time.monotonic()))
        asked.append(asyncio.ensure_future(ask(number)))
    await asyncio.gather(*asked)
    return 100 * (_cpu(stage.pid) - cpu) / SECONDS


async def _poll(stage: Stage, agent: str, etag: str) -> None:
    # Its last connection has been closed in the meantime: servers and clients keep one for five seconds.
    async with Wire(stage.url, stage.key) as wire:
        headers = {"If-None-Match": etag, "Hookgate-Runtime": "bench-1"}
        status, _ = await wire.ask("GET", f"/api/v1/agents/{agent}/registry?surface=chat", headers=headers)
    if status != 304:
        raise RuntimeError(f"{agent}: {status}")


async def _look(stage: Stage) -> None:
    async with Wire(stage.url) as wire:
        await wire.ask("GET", BARE)


def _cpu(pid: int) -> float:
    """Seconds of processor time that a process has taken, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
