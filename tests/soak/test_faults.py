"""Random sequences of faults between runtimes and the real portal, over several lives; and the whole table of them."""

import asyncio
import os
import random
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hookgate import Runtime

from tests.contract import faults, test_faults
from tests.contract.breaking import FAULTS, Breaker, Plan
from tests.contract.conftest import World, world
from tests.contract.faults import KINDS, MAY_RUN, Call, Scene
from tests.contract.outside import Api
from tests.contract.playing import eventually
from tests.soak import counts

__all__ = ["world"]

ROUNDS = int(os.environ.get("HOOKGATE_FAULT_ROUNDS", "200"))
SEED = int(os.environ.get("HOOKGATE_SEED") or random.randrange(10_000))
AT_ONCE = 4
CALLS = 6
# How often a request fails, by round; and for how many seconds a life that meets faults may last.
CHANCES = (0.1, 0.3, 0.6)
LIVES = (0.3, 1.0, 3.0)
BOUND = 120.0
# Seconds within which a runtime has sent what its former lives left behind; what is missing then is counted.
PATIENCE = 15.0
pytestmark = [pytest.mark.soak, pytest.mark.skipif(not counts.SOAK, reason="part of make soak")]


@pytest.fixture(scope="module")
def key(world: World) -> Iterator[str]:
    """The organization of these tests."""
    with faults.employed(world) as key:
        yield key


def test_the_whole_table(world: World, key: str, tmp_path: Path) -> None:
    cases = [*test_faults.passing(), *test_faults.standing()]
    played = test_faults.play(world, key, cases, tmp_path)
    test_faults.check(world, key, played)
    calls = [call for one in played for call in one.calls]
    ran = Counter(call.kind for call in calls if call.ran)
    counts.record(
        "faults/table",
        database="sqlite",
        rounds=len(cases),
        faults={
            "unapproved": sum(number for kind, number in ran.items() if kind not in MAY_RUN),
            "twice": sum(call.ran > 1 for call in calls),
        },
        calls=len(calls),
        ran=sum(ran.values()),
        broken=sum(sum(one.scene.breaker.met.values()) for one in played),
    )


@dataclass
class Round:
    """Calls of one agent, how often each was made, and what was broken meanwhile."""

    agent: str
    calls: list[Call]
    made: Counter[str] = field(default_factory=Counter)
    broken: int = 0
    user: str = field(default_factory=lambda: uuid.uuid4().hex)

    def all_logged(self, world: World) -> bool:
        """Whether the portal has an entry for each call, those of former lives included."""
        entries = faults.pages(world["alice"], "/calls", user=self.user)
        return sum(1 for _ in entries) >= self.made.total()


def weather(chance: random.Random) -> Plan:
    """Any request may fail, and one purpose may fail for a while."""
    often = chance.choice(CHANCES)
    spell: list[str] = []

    def plan(asked: str, which: str) -> str | None:
        if not spell and chance.random() < 0.05:
            spell.extend([asked] * chance.randrange(1, 12))
        if asked in spell:
            spell.remove(asked)
            return chance.choice(FAULTS)
        return chance.choice(FAULTS) if chance.random() < often else None

    return plan


async def live(
    world: World, key: str, played: Round, breaker: Breaker, folder: Path, seconds: float | None
) -> None:
    """One life of a runtime: every call that is still to be made, until the time is over; None for a life in peace,
    which ends when all is done."""
    timeout = faults.TIMEOUT if seconds is None else 0.5
    runtime = Runtime(breaker.url, key, timeout=timeout, pacing=faults.PACING, spool=folder)
    scene = Scene(world["bob"], breaker, runtime, user={"id": played.user})
    async with runtime:
        # What needs nobody has no request by which a second life would know of the first.
        wanted = [
            call for call in played.calls if call.kind != "ungated" or not played.made[call.conversation]
        ]
        played.made.update(call.conversation for call in wanted)
        tasks = [asyncio.ensure_future(scene.play(played.agent, call)) for call in wanted]
        await asyncio.wait(tasks, timeout=seconds)
        if seconds is None:
            with suppress(AssertionError):
                await eventually(lambda: played.all_logged(world), seconds=PATIENCE)
    await asyncio.gather(*tasks)


async def play_round(world: World, key: str, seed: int, folder: Path) -> Round:
    """Lives among faults, and a last one without. All have one address: what a life left on disk is for its portal."""
    chance = random.Random(seed)
    tools = {"expired": "oa__brief", "ungated": "oa__write"}
    kinds = ["approved", *chance.choices(KINDS, (3, 2, 1, 1, 1), k=CALLS - 1)]
    played = Round(
        chance.choice(("plain", "careful", "easy")), [Call(k, tools.get(k, "oa__pay")) for k in kinds]
    )
    async with Breaker(world.portal.url) as breaker, asyncio.timeout(BOUND):
        for _ in range(chance.randrange(1, 4)):
            breaker.plan = weather(chance)
            await live(world, key, played, breaker, folder, chance.choice(LIVES))
        await breaker.calm()
        await live(world, key, played, breaker, folder, None)
        played.broken = breaker.met.total()
    return played


def judge(played: list[Round], api: Api, people: Api) -> Counter[str]:
    """Count what became of all calls, by the tools, the portal's rows and its call log."""
    rows: dict[str, list[dict[str, object]]] = {}
    for row in faults.pages(api, "/confirmations"):
        rows.setdefault(str(row["conversation_id"]), []).append(row)
    logged: Counter[str] = Counter()
    for agent in ("plain", "careful", "easy"):
        logged.update(entry["conversation_id"] for entry in faults.pages(people, "/calls", agent=agent))
    seen: Counter[str] = Counter()
    for one in played:
        for call in one.calls:
            asked = rows.get(call.conversation, [])
            approved = [row for row in asked if row["status"] == "approved"]
            used = [row for row in asked if row["consumed_at"] is not None]
            seen["ran"] += call.ran
            seen["twice"] += call.ran > 1
            seen["unapproved"] += bool(call.ran) and call.kind != "ungated" and not (approved and used)
            seen["unapproved"] += bool(call.ran) and call.kind not in MAY_RUN
            seen["asked_twice"] += len(asked) > 1
            # Approved, and still not run by a runtime that nothing stood in the way of.
            seen["lost"] += bool(approved) and not used
            seen["used_without_running"] += bool(used) and not call.ran
            seen["unlogged"] += logged[call.conversation] < one.made[call.conversation]
            seen["logged_twice"] += logged[call.conversation] > one.made[call.conversation]
    return seen


def test_no_sequence_of_faults_runs_what_was_not_approved_or_runs_it_twice(
    world: World, key: str, tmp_path: Path
) -> None:
    print(f"\nseed {SEED}", flush=True)
    api = Api(world.portal.url, key)

    async def scene() -> list[Round]:
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> Round:
            async with turns:
                return await play_round(world, key, SEED * 10_000 + number, tmp_path / str(number))

        return await asyncio.gather(*(one(number) for number in range(ROUNDS)))

    played = asyncio.run(scene())
    seen = judge(played, api, world["alice"])
    must = ("unapproved", "twice", "asked_twice", "lost", "unlogged", "logged_twice")
    counts.record(
        "faults/sequences",
        database="sqlite",
        rounds=ROUNDS,
        faults={name: seen[name] for name in must},
        calls=sum(sum(one.made.values()) for one in played),
        ran=seen["ran"],
        used_without_running=seen["used_without_running"],
        broken=sum(one.broken for one in played),
        seed=SEED,
    )
