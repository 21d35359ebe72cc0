"""Every request of the runtime fails in every way, against the real portal: a tool runs only where docs/runtime.md's
failure table lets it, once, and never for a request that was not approved.

Five calls stand under each fault: one that is approved, one rejected, one that nobody answers, one that is taken back,
and one that needs nobody.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract import faults
from tests.contract.breaking import BEFORE, FAULTS, PURPOSES
from tests.contract.conftest import World
from tests.contract.faults import MAY_RUN, Case, Played
from tests.contract.outside import Api

NOTHING: frozenset[str] = frozenset()
ALL = frozenset(MAY_RUN)
UNGATED = frozenset({"ungated"})
# How many cases are played at once.
AT_ONCE = 4


def passing() -> list[Case]:
    """A fault that goes away: everything that may run does."""
    cases = [
        Case(purpose, fault)
        for purpose in PURPOSES
        if purpose not in ("limits", "notices")
        for fault in FAULTS
    ]
    # One that takes too long, or that is refused twice, isn't asked a third time.
    limited = [fault for fault in FAULTS if fault not in ("slow", "refused")]
    return cases + [Case("limits", fault, agent="careful") for fault in limited]


def standing() -> list[Case]:
    """A fault that stays."""
    always: dict[str, list[tuple[str, frozenset[str], int, str]]] = {
        "registry": [("plain", NOTHING, 0, "registry")],
        "create": [("plain", UNGATED, 0, "approval_gate")],
        "wait": [("plain", UNGATED, 0, "approval_gate")],
        "consume": [("plain", UNGATED, 0, "approval_gate")],
        "limits": [("careful", NOTHING, 0, "connector_rate_limit"), ("easy", ALL, 0, "")],
        "notices": [("insisting", NOTHING, 0, "notify"), ("telling", ALL, 0, "")],
        **{name: [("plain", ALL, 0, "")] for name in ("events", "outcome", "cancel", "calls", "tools")},
    }
    always["registry"].append(("plain", ALL, 1, ""))
    return [
        Case(purpose, fault, runs, agent, True, after, blocked_by)
        for purpose, ways in always.items()
        for agent, runs, after, blocked_by in ways
        for fault in FAULTS
    ]


def chosen(cases: list[Case]) -> list[Case]:
    """A part of them, and fewer calls under each; ``make soak`` plays all."""
    return [_shorten(number, case) for number, case in enumerate(cases) if _matters(number, case)]


def _matters(number: int, case: Case) -> bool:
    """Where an approval could be lost or used twice every fault is played; elsewhere the turn goes round."""
    every = {"create": 1, "consume": 1, "wait": 3, "outcome": 3}.get(case.purpose, 6)
    return number % (every * 3 if case.standing and every < 4 else every) == 0


def _shorten(number: int, case: Case) -> Case:
    unapproved = "withdrawn" if case.purpose == "cancel" else ("rejected", "expired", "withdrawn")[number % 3]
    if case.purpose in ("consume", "outcome") and not case.standing:
        # Nothing but an approved call comes so far.
        return replace(case, kinds=("approved",))
    needs_nobody = () if case.purpose == "create" and not case.standing else ("ungated",)
    return replace(case, kinds=("approved", unapproved, *needs_nobody))


@pytest.fixture(scope="module")
def key(world: World) -> Iterator[str]:
    """The organization of these tests."""
    with faults.employed(world) as key:
        yield key


def play(world: World, key: str, cases: list[Case], folder: Path) -> list[Played]:
    """The cases, a bounded number at once."""

    async def scene() -> list[Played]:
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(number: int, case: Case) -> Played:
            async with turns:
                return await faults.play_case(world, key, case, folder / str(number))

        return await asyncio.gather(*(one(number, case) for number, case in enumerate(cases)))

    return asyncio.run(scene())


def check(world: World, key: str, played: list[Played]) -> None:
    """Hold all of them against the portal's rows."""
    api = Api(world.portal.url, key)
    rows: dict[str, list[dict[str, object]]] = {}
    for row in faults.pages(api, "/confirmations"):
        rows.setdefault(str(row["conversation_id"]), []).append(row)
    for one in played:
        one.check(rows)


def test_a_fault_that_passes_costs_no_call(world: World, key: str, tmp_path: Path) -> None:
    played = play(world, key, chosen(passing()), tmp_path)
    check(world, key, played)
    logged = {
        row["conversation_id"]: row["status"] for row in faults.pages(world["alice"], "/calls", agent="plain")
    }
    for one in played:
        # Whatever the calls came to is in the portal's log when the runtime has closed.
        assert one.waiting == 0, one.case.name
        for call in one.calls if one.case.agent == "plain" else ():
            assert logged[call.conversation] == _status(call), (one.case.name, call)


def _status(call: faults.Call) -> str:
    return "cancelled" if call.outcome is None else call.outcome.status


def test_a_fault_that_stays_lets_run_what_does_not_depend_on_it(
    world: World, key: str, tmp_path: Path
) -> None:
    played = play(world, key, chosen(standing()), tmp_path)
    check(world, key, played)
    for one in played:
        if one.case.purpose == "calls" and one.case.fault in BEFORE:
            # Kept on disk for the next process.
            assert one.waiting >= len(one.calls), one.case.name
