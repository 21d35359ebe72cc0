"""From a person's decision to the tool's run, beside one bare HTTP round trip and beside a poller.

The clock starts when the portal has committed the decision and stops when the tool is entered: the wake-up, the answer
to the long poll and the consumption lie in between. The poller asks for the same request every 1.5 seconds and stops
when it reads the decision; it consumes nothing. All on one machine, whose monotonic clock is everybody's.
"""

import asyncio
import random
import time
import uuid
from statistics import median
from typing import Any

import httpx
from hookgate import Runtime

from benchmarks.measure import Figure
from benchmarks.serving import BARE, COMMITTED
from benchmarks.stage import AGENT, Stage

ROUNDS = 12
POLL_SECONDS = 1.5
TOOL = "oa__purchase_pay"
USER = {"id": "u42", "name": "Kim", "email": "kim@bench.test"}
GOAL = 25.0


def run(stage: Stage, suffix: str = "") -> list[Figure]:
    """Milliseconds, medians of rounds in turns; ``suffix`` is added to the figures' names."""
    return asyncio.run(_run(stage, suffix))


async def _run(stage: Stage, suffix: str) -> list[Figure]:
    ours, polled, bare = [], [], []
    async with (
        Runtime(stage.url, stage.key, name="bench-1", spool=stage.spool) as runtime,
        _client(stage, stage.key) as machine,
        _client(stage, stage.token) as bob,
    ):
        await _tap(runtime, bob)
        for _ in range(ROUNDS):
            ours.append(await _tap(runtime, bob))
            polled.append(await _poll(machine, bob))
            bare.append(await _round_trip(machine))
    told, met = f"ours ≤ {GOAL:g} ms", median(ours) <= GOAL
    return [
        Figure(f"tap_to_resume_and_round_trip{suffix}", median(ours), median(bare), "ms", told, met),
        Figure(f"tap_to_resume_and_poller{suffix}", median(ours), median(polled), "ms", told, met),
    ]


def _client(stage: Stage, bearer: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=stage.url, headers={"Authorization": f"Bearer {bearer}"}, timeout=30, trust_env=False
    )


async def _tap(runtime: Runtime, bob: httpx.AsyncClient) -> float:
    asked: asyncio.Queue[str] = asyncio.Queue()
    entered: list[float] = []

    def show(event: dict[str, Any]) -> None:
        if event["type"] == "awaiting_confirmation":
            asked.put_nowait(event["id"])

    async def pay(args: dict[str, Any]) -> str:
        entered.append(time.monotonic())
        return "paid"

    async with runtime.session(AGENT, user=USER, on_event=show) as session:
        call = asyncio.create_task(session.call_tool(TOOL, {"amount": 1}, execute=pay))
        request = await asyncio.wait_for(asked.get(), 30)
        await asyncio.sleep(random.uniform(0.05, 0.2))
        await _decide(bob, request)
        outcome = await asyncio.wait_for(call, 30)
    outcome.raise_if_blocked()
    # Asked afterwards: this request is no part of what is measured, and would be in its way.
    return (entered[0] - await _committed(bob, request)) * 1000


async def _poll(machine: httpx.AsyncClient, bob: httpx.AsyncClient) -> float:
    registry = (await machine.get(f"/api/v1/agents/{AGENT}/registry")).raise_for_status().json()
    body = {
        "agent": AGENT,
        "conversation_id": uuid.uuid4().hex,
        "tool_call_id": "call_01",
        "tool_name": TOOL,
        "tool_args": {"amount": 1},
        "hook": "approval_gate",
        "registry_digest": registry["digest"],
        "initiator": USER,
    }
    request = (await machine.post("/api/v1/confirmations", json=body)).raise_for_status().json()["id"]

    async def decide() -> None:
        await asyncio.sleep(random.uniform(0.05, 0.05 + POLL_SECONDS))
        await _decide(bob, request)

    deciding = asyncio.create_task(decide())
    while (await machine.get(f"/api/v1/confirmations/{request}")).json()["status"] == "pending":  # noqa: ASYNC110  # it polls
        await asyncio.sleep(POLL_SECONDS)
    seen = time.monotonic()
    await deciding
    return (seen - await _committed(bob, request)) * 1000


async def _decide(bob: httpx.AsyncClient, request: str) -> None:
    answer = await bob.post(f"/api/v1/confirmations/{request}/respond", json={"decision": "approve"})
    answer.raise_for_status()


async def _committed(bob: httpx.AsyncClient, request: str) -> float:
    """When its decision was committed, on the monotonic clock."""
    told = await bob.get(f"{COMMITTED}confirmation:{request}")
    return float(told.raise_for_status().text)


async def _round_trip(machine: httpx.AsyncClient) -> float:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        (await machine.get(BARE)).raise_for_status()
        times.append((time.perf_counter() - started) * 1000)
    return median(times)
