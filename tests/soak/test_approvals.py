"""Approvals through the whole stack, many at once: none lost, none twice, none without approval."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.e2e.conftest import Stage
from tests.soak import counts
from tests.soak.crowd import PLANS, SEEN, Crowd, Payment, count, payments

# The chat takes five cards a second, which is what bounds the time.
COUNT = 300
STAGES = ["embedded", "production"]
pytestmark = [pytest.mark.soak] if counts.SOAK else []


@counts.LONG  # `make test` plays them in tests/crashes, among kills
@pytest.mark.parametrize("stage", STAGES, indirect=True)
def test_every_approved_call_runs_once_and_no_other(stage: Stage, request: pytest.FixtureRequest) -> None:
    crowd = Crowd(stage)
    plans = payments(COUNT)
    assert {payment.plan for payment in plans} == set(PLANS)

    async def play() -> None:
        async with asyncio.timeout(60 + COUNT):
            await crowd.play(plans)

    asyncio.run(play())
    found = count(plans, runs=crowd.runs, records=crowd.records(), cards=crowd.cards(), logged=crowd.logged())
    seen = {name: found.pop(name) for name in SEEN}
    counts.record(
        "approvals/many people",
        database=request.node.callspec.id,
        rounds=seen["asked"],
        faults=found,
        approved=seen["approved"],
        ran=seen["ran"],
        taps_unanswered=crowd.unanswered,
        **{f"tap_p{share}_ms": at for share, at in percentiles(crowd.waits).items()},
    )
    assert seen["ran"] == seen["approved"] > 0


def percentiles(waits: list[int]) -> dict[int, int]:
    """The middle one, the one that all but a hundredth stay below, and the longest."""
    ordered = sorted(waits)
    return {share: ordered[(len(ordered) - 1) * share // 100] for share in (50, 99, 100)}


APPROVED = {"status": "approved", "decisions": [{"user": "bob"}], "outcome": "succeeded"}
REJECTED = {"status": "rejected", "decisions": [{"user": "bob"}], "outcome": None}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, set()),
        ({"runs": {2: 1}}, {"lost", "unapproved", "log differs", "outcome missing"}),
        ({"runs": {1: 2}}, {"twice", "log differs"}),
        ({"cards": {1: 2, 2: 1}}, {"cards twice"}),
        ({"logged": {}}, {"log differs"}),
        ({"records": {1: APPROVED}}, {"not on record"}),
        ({"records": {1: APPROVED, 2: APPROVED}}, {"wrongly approved"}),
        ({"records": {1: {**APPROVED, "outcome": None}, 2: REJECTED}}, {"outcome missing"}),
        ({"records": {1: {**APPROVED, "decisions": [{"user": "charlie"}]}, 2: REJECTED}}, {"unapproved"}),
    ],
)
def test_each_fault_would_be_counted(change: dict[str, Any], found: set[str]) -> None:
    seen: dict[str, Any] = {
        "runs": {1: 1},
        "records": {1: APPROVED, 2: REJECTED},
        "cards": {1: 1, 2: 1},
        "logged": {1: 1},
    }
    seen |= change
    found_now = count(
        [Payment(1, "approve"), Payment(2, "reject")],
        runs=Counter(seen["runs"]),
        records=seen["records"],
        cards=seen["cards"],
        logged=Counter(seen["logged"]),
    )
    assert {name for name, n in found_now.items() if n and name not in SEEN} == found
