"""The portal's processes and the runtimes die or are stopped at any moment: nothing lost, doubled or smuggled through.

The short form lets a dead worker's lease run out at once; ``make soak`` waits for it.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from channels_app.sandbox.control import describe
from channels_app.sandbox.messages import Message
from tests.crashes.killing import AgentProcess, Part, Reaper, end_leases
from tests.crashes.people import FAULTS, SEEN, PatientCrowd, count
from tests.crashes.playing import employ, heard, look, share
from tests.crashes.proxy import Proxy
from tests.e2e.conftest import Stage
from tests.machinery.live import until
from tests.soak import counts
from tests.soak.crowd import Payment, amount_of, payments

COUNT = 300 if counts.SOAK else 6
WAITING = 20 if counts.SOAK else 4
SEED = int(os.environ.get("HOOKGATE_SEED") or (random.randrange(10_000) if counts.SOAK else 7))
# Calls that end between two kills, at most; and seconds for everything.
STRIDE = 12 if counts.SOAK else 4
LIMIT = 2400.0 if counts.SOAK else 240.0
# How long the chat takes to answer once it has the message; a good part of the kills meet a worker there.
CHAT_MS = 100
# Seconds after which a card that a dead worker held must be on its way again: its lease, and a sweep.
LEASE = 120.0
pytestmark = [pytest.mark.soak] if counts.SOAK else []


def end_leases_soon(stage: Stage) -> None:
    """What a dead worker held is free again; the long form waits for that."""
    if not counts.SOAK:
        end_leases(stage.portal)


async def play(crowd: PatientCrowd, plans: list[Payment], agents: list[AgentProcess], reaper: Reaper) -> None:
    """Run the agents to their end among people and kills."""
    for agent in agents:
        agent.start()

    async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as tasks:
        tasks.create_task(reaper.reap())
        tasks.create_task(crowd.meet_all(plans))


def test_kills_at_random_moments_lose_double_and_smuggle_nothing(
    stage: Stage, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    print(f"\nseed {SEED}", flush=True)
    chance = random.Random(SEED)
    crowd, plans = PatientCrowd(stage, chance), payments(COUNT)
    agents = share(stage, tmp_path, plans)
    reaper = Reaper(
        stage.portal,
        agents,
        chance=chance,
        longest_stride=STRIDE,
        progress=lambda: len(heard(agents, "ended")),
        after_kill=lambda: end_leases_soon(stage),
    )
    stage.sandbox.control("failures", endpoint="send", late_ms=CHAT_MS, count=1_000_000)
    try:
        asyncio.run(play(crowd, plans, agents, reaper))
    finally:
        stage.sandbox.control("failures/clear")
        for agent in agents:
            agent.stop()
    tally = count(plans, look(crowd, agents, runtimes_killed=reaper.kills["runtime"]))
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


class Scene:
    """A runtime with approvals of its own, people, and the figures at the end."""

    def __init__(self, stage: Stage, folder: Path, database: str) -> None:
        self.stage = stage
        self.crowd = PatientCrowd(stage, random.Random(SEED))
        self.agents: list[AgentProcess] = []
        self.plans: list[Payment] = []
        self._folder = folder
        self._database = database

    def employ(self, first: int, number: int, *, plan: str = "approve", **orders: Any) -> AgentProcess:
        """A started runtime with ``number`` payments from ``first`` on, all asked for at once."""
        self.plans = [Payment(first + index, plan) for index in range(number)]
        agent = employ(self.stage, self._folder, self.plans, name=f"agent-{first}", at_once=number, **orders)
        self.agents.append(agent)
        agent.start()
        return agent

    def rows(self) -> list[dict[str, Any]]:
        """The portal's rows of these payments."""
        amounts = {payment.amount for payment in self.plans}
        rows = self.crowd.pages("confirmations", self.stage.key)
        return [row for row in rows if amount_of(row) in amounts]

    def cards(self) -> int:
        """How many cards ask about these payments."""
        seen = self.crowd.cards()
        return sum(seen.get(payment.amount, 0) for payment in self.plans)

    def wait_for_cards(self) -> None:
        """Return when every payment has a card."""
        until(lambda: self.cards() >= len(self.plans), seconds=LEASE, what="the cards")

    def approve(self) -> None:
        """Let Bob approve all of them, and the runtime end."""
        asyncio.run(self.crowd.meet_all(self.plans))
        for agent in self.agents:
            agent.wait(LEASE)

    def record(self, test: str, **seen: int) -> None:
        """Put it on record; fails for any fault, and unless all of them ran."""
        # Outcomes are reported in the background.
        until(lambda: all(row["outcome"] for row in self.rows()), seconds=20, what="the outcomes")
        tally = count(self.plans, look(self.crowd, self.agents))
        faults = {name: tally[name] for name in FAULTS}
        counts.record(
            f"crashes/{test}",
            database=self._database,
            rounds=len(self.plans),
            faults=faults,
            ran=tally["ran"],
            **seen,
        )
        assert tally["ran"] == len(self.plans)


@pytest.fixture
def scene(stage: Stage, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A scene whose runtimes end with it."""
    made = Scene(stage, tmp_path, request.node.callspec.id)
    yield made
    stage.sandbox.control("failures/clear")
    for agent in made.agents:
        agent.stop()


def test_a_call_whose_answers_are_lost_on_the_way_runs_once(scene: Scene) -> None:
    with Proxy(scene.stage.portal.url) as proxy:
        proxy.lose("/confirmations", 1)
        proxy.lose("/consume", 2)
        proxy.lose("/outcome", 1)
        scene.employ(300_000, 1, url=proxy.url)
        scene.approve()
        scene.record("lost answers", answers_lost=proxy.lost)
        assert proxy.lost == 4


def test_a_runtime_that_is_asked_to_stop_leaves_its_requests_to_the_next(scene: Scene) -> None:
    agent = scene.employ(310_000, WAITING)
    scene.wait_for_cards()
    # A card may be in the chat before the runtime has read that it waits.
    until(lambda: len(heard([agent], "waits")) == WAITING, seconds=20, what="the runtime's waiting")
    before = {row["tool_call_id"]: row["request"] for row in heard([agent], "waits")}
    assert agent.end(signal.SIGTERM) == 143
    assert [row["status"] for row in scene.rows()] == ["pending"] * WAITING
    agent.start()
    until(lambda: len(heard([agent], "waits")) >= 2 * WAITING, seconds=60, what="taking them up again")
    taken_up = {row["tool_call_id"]: row["request"] for row in heard([agent], "waits")[WAITING:]}
    assert taken_up == before
    scene.approve()
    scene.record("runtime stopped", taken_up=len(taken_up))


def test_a_portal_that_is_asked_to_stop_loses_nobody_who_waits_or_taps(scene: Scene) -> None:
    agent = scene.employ(320_000, WAITING)
    scene.wait_for_cards()
    part = Part(scene.stage.portal, "portal")

    async def stop_while_they_tap() -> float:
        tapping = asyncio.create_task(scene.crowd.meet_all(scene.plans))
        await asyncio.sleep(0.5)
        began = time.monotonic()
        assert await asyncio.to_thread(part.end, signal.SIGTERM) == 0
        took = time.monotonic() - began
        await asyncio.to_thread(part.start)
        await tapping
        return took

    took = asyncio.run(stop_while_they_tap())
    agent.wait(LEASE)
    assert heard([agent], "out of reach") == []
    scene.record("portal stopped", stop_ms=int(took * 1000), taps_unanswered=scene.crowd.unanswered)


def test_a_worker_that_dies_after_the_chat_has_the_card_sends_it_again_as_the_same(scene: Scene) -> None:
    stage = scene.stage
    embedded = not stage.portal.companions
    worker = Part(stage.portal, "portal" if embedded else "worker")
    stage.sandbox.control("failures", endpoint="send", late_ms=15_000)
    scene.employ(330_000, 1)
    scene.wait_for_cards()
    assert [delivery["status"] for delivery in scene.rows()[0]["deliveries"]] == ["sending"]
    worker.end()
    end_leases_soon(stage)
    worker.start()
    until(
        lambda: [delivery["status"] for delivery in scene.rows()[0]["deliveries"]] == ["sent"],
        seconds=LEASE,
        what="the second send",
    )
    (key,) = {message.uuid for message in scene.crowd.messages(scene.plans[0].amount)}
    calls = stage.sandbox.look("calls", endpoint="send")["calls"]
    sends = sum(1 for call in calls if key in call["body"])
    assert sends == 2
    assert scene.rows()[0]["deliveries"][0]["attempts"] == 2
    scene.approve()
    scene.record("worker killed between send and commit", sends=sends, cards=scene.cards())


@pytest.mark.parametrize("stage", ["production"], indirect=True)
def test_without_a_scheduler_time_runs_out_all_the_same(scene: Scene) -> None:
    scheduler = Part(scene.stage.portal, "beat")
    scheduler.end()
    agent = scene.employ(340_000, 2, plan="silence")
    # Nobody sweeps, so the cards come by pokes; and nobody waits, so the end comes by the clock.
    scene.wait_for_cards()
    agent.end()
    until(lambda: {row["status"] for row in scene.rows()} == {"expired"}, seconds=60, what="the end of time")
    tapped, left = (scene.crowd.messages(payment.amount)[0] for payment in scene.plans)
    assert all(_can_be_tapped(message) for message in (tapped, left))
    press = {"message_id": tapped.message_id, "open_id": "ou_bob", "button": "Approve"}
    assert scene.stage.sandbox.control("press", **press)["toast"]["type"] != "success"
    scheduler.start()
    until(lambda: not _can_be_tapped(left), seconds=LEASE, what="the sweep")
    assert [(row["status"], row["decisions"]) for row in scene.rows()] == [("expired", [])] * 2


def _can_be_tapped(message: Message) -> bool:
    return any(button["callback"] for button in describe(message)["view"]["buttons"])
