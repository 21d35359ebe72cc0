"""Create, decide and consume over HTTP, one after another and by many at once, beside their bare SQL statements."""

import asyncio
import uuid
from statistics import median, quantiles
from typing import Any

from benchmarks.measure import Figure
from benchmarks.stage import AGENT, Stage
from benchmarks.wire import Wire

CALLS = ("create", "decide", "consume")
# Repetitions one after another; then of each of so many clients.
ROUNDS = 60
CLIENTS = 50
TOGETHER = 3
PATH = "/api/v1/confirmations"


def asking(agent: str, digest: str, conversation: str) -> dict[str, Any]:
    """A body for ``POST /confirmations``."""
    return {
        "agent": agent,
        "conversation_id": conversation,
        "tool_call_id": "call_01",
        "tool_name": "oa__purchase_pay",
        "tool_args": {"amount": 1},
        "hook": "approval_gate",
        "registry_digest": digest,
        "initiator": {"id": "u42", "name": "Kim", "email": "kim@bench.test"},
    }


def run(stage: Stage, pollers: list[str]) -> list[Figure]:
    """Milliseconds, medians and 99th percentiles. ``pollers`` are agents, one for each client."""
    bare = stage.inside("benchmarks.replay", stage.key, stage.token, asyncio.run(_digest(stage)))
    alone = asyncio.run(measure(stage, [AGENT], ROUNDS))
    together = asyncio.run(measure(stage, pollers[:CLIENTS], TOGETHER))
    figures = []
    for call in CALLS:
        goal = f"beside {bare['statements'][call]} bare statements"
        for name, ours, theirs in (
            (f"{call}_alone", alone[call], bare["sequential"][call]),
            (f"{call}_by_{CLIENTS}", together[call], bare["together"][call]),
        ):
            figures += [
                Figure(f"{name}_p50", median(ours), median(theirs), "ms", goal, met=True),
                Figure(f"{name}_p99", _p99(ours), _p99(theirs), "ms", goal, met=True),
            ]
    return figures


def _p99(times: list[float]) -> float:
    return quantiles(times, n=100, method="inclusive")[98]


async def _digest(stage: Stage) -> str:
    async with Wire(stage.url, stage.key) as machine:
        _, manifest = await machine.timed("GET", f"/api/v1/agents/{AGENT}/registry")
    return str(manifest["digest"])


async def measure(stage: Stage, agents: list[str], rounds: int) -> dict[str, list[float]]:
    """Every agent at once, each asking ``rounds`` times; what each call took."""
    digest = await _digest(stage)
    times: dict[str, list[float]] = {call: [] for call in CALLS}

    async def client(agent: str) -> None:
        async with Wire(stage.url, stage.key) as machine, Wire(stage.url, stage.token) as bob:
            for _ in range(rounds):
                body = asking(agent, digest, uuid.uuid4().hex)
                spent, made = await machine.timed("POST", PATH, body, expect=201)
                times["create"].append(spent)
                path = f"{PATH}/{made['id']}"
                spent, decided = await bob.timed("POST", f"{path}/respond", {"decision": "approve"})
                times["decide"].append(spent)
                using = {"args_digest": decided["args_digest"], "attempt": str(uuid.uuid4())}
                spent, _ = await machine.timed("POST", f"{path}/consume", using)
                times["consume"].append(spent)

    await asyncio.gather(*(client(agent) for agent in agents))
    return times
