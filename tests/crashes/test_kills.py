"""Everything that can be killed is killed (SIGKILL) while people decide: nothing lost, twice, unapproved or doubled."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from examples import demo
from tests.crashes.agent import Call, Orders, read
from tests.crashes.killing import AgentProcess, Reaper, end_leases
from tests.crashes.people import FAULTS, SEEN, Found, PatientCrowd, count
from tests.e2e.conftest import Stage
from tests.soak import counts
from tests.soak.crowd import Payment, payments

COUNT = 300 if counts.SOAK else 12
SEED = int(os.environ.get("HOOKGATE_SEED") or (random.randrange(10_000) if counts.SOAK else 7))
# Seconds between two kills, and for everything.
LONGEST_PAUSE = 6.0 if counts.SOAK else 0.6
LIMIT = 2400.0 if counts.SOAK else 240.0
AT_ONCE = 8
# How long the chat takes to answer once it has the message; a good part of the kills meet a worker there.
CHAT_MS = 100
pytestmark = [pytest.mark.soak] if counts.SOAK else []


def employ(stage: Stage, plans: list[Payment], folder: Path) -> list[AgentProcess]:
    """Two runtimes that share the payments; a shared one is asked for by both."""
    agents = []
    for number in (0, 1):
        mine = [p for p in plans if p.plan == "approve_shared" or p.amount % 2 == number]
        orders = Orders(
            url=stage.portal.url,
            key=stage.key,
            name=f"agent-{number}",
            user=demo.USER,
            ledger=str(folder / "ledger"),
            journal=str(folder / f"journal-{number}"),
            calls=tuple(Call(f"talk-{p.amount}", f"call-{p.amount}", p.tool, p.amount) for p in mine),
            at_once=AT_ONCE,
        )
        agents.append(AgentProcess(folder, orders))
    return agents


def group(pairs: Iterable[tuple[int, dict[str, Any]]]) -> dict[int, list[dict[str, Any]]]:
    """Rows by amount."""
    grouped: dict[int, list[dict[str, Any]]] = {}
    for amount, row in pairs:
        grouped.setdefault(amount, []).append(row)
    return grouped


def look(crowd: PatientCrowd, agents: list[AgentProcess], reaper: Reaper) -> Found:
    """What is to be seen afterwards."""
    heard = [row for agent in agents for row in read(agent.orders.journal)]
    ends = [row for row in heard if row["type"] == "ended"]
    rows = crowd.pages("confirmations", crowd.stage.key)
    return Found(
        ran=Counter(row["args"]["amount"] for row in read(agents[0].orders.ledger)),
        ended=group((int(row["tool_call_id"].removeprefix("call-")), row) for row in ends),
        rows=group((row["tool_args"]["amount"], row) for row in rows),
        cards=crowd.cards(),
        asked_again=sum(1 for row in heard if row["type"] == "out of reach"),
        runtimes_killed=reaper.kills["runtime"],
        expected_ends=Counter(call.amount for agent in agents for call in agent.orders.calls),
    )


async def play(crowd: PatientCrowd, plans: list[Payment], agents: list[AgentProcess], reaper: Reaper) -> None:
    """Run the agents to their end among people and kills."""
    for agent in agents:
        agent.start()

    async def reap() -> None:
        while not all(agent.finished for agent in agents):
            if counts.SOAK or not reaper.rounds:
                await reaper.round()
            await asyncio.sleep(0.1)

    async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as tasks:
        tasks.create_task(reap())
        tasks.create_task(crowd.meet_all(plans))


def test_kills_at_random_moments_lose_double_and_smuggle_nothing(
    stage: Stage, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    print(f"\nseed {SEED}")
    chance = random.Random(SEED)
    crowd, plans = PatientCrowd(stage, chance), payments(COUNT)
    agents = employ(stage, plans, tmp_path)
    reaper = Reaper(
        stage.portal,
        agents,
        chance=chance,
        longest_pause=LONGEST_PAUSE,
        after_kill=(lambda: None) if counts.SOAK else (lambda: end_leases(stage.portal)),
    )
    stage.sandbox.control("failures", endpoint="send", late_ms=CHAT_MS, count=1_000_000)
    try:
        asyncio.run(play(crowd, plans, agents, reaper))
    finally:
        stage.sandbox.control("failures/clear")
        for agent in agents:
            if agent.runs:
                agent.end()
    tally = count(plans, look(crowd, agents, reaper))
    counts.record(
        "crashes/kills",
        database=request.node.callspec.id,
        rounds=COUNT,
        faults={name: tally[name] for name in FAULTS},
        **{name: tally[name] for name in SEEN},
        **{f"{name}_killed": number for name, number in sorted(reaper.kills.items())},
        taps_unanswered=crowd.unanswered,
        seed=SEED,
    )
