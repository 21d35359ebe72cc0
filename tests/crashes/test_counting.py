"""The count of the crash tests: each fault would be counted, and nothing else."""

from collections import Counter
from typing import Any

import pytest

from tests.crashes.people import NOT_AGAIN, SEEN, Found, count
from tests.soak.crowd import Payment

USED = {"consumed_at": "2026-01-01T00:00:00Z", "outcome": "succeeded"}
BY_BOB = {word: [{"user": "bob", "decision": word, "identity": None}] for word in ("approve", "reject")}
APPROVED = {"status": "approved", "decisions": BY_BOB["approve"], **USED}
REJECTED = {"status": "rejected", "decisions": BY_BOB["reject"], "consumed_at": None, "outcome": None}
RAN = {"status": "succeeded", "observation": "paid"}
BLOCKED = {"status": "blocked", "observation": "rejected by bob"}
CUT_OFF = {"status": "blocked", "observation": NOT_AGAIN}


def judge(**change: Any) -> set[str]:
    """The faults of an approved call (1) and a rejected one (2), with one thing changed."""
    seen: dict[str, Any] = {
        "ran": {1: 1},
        "ended": {1: [RAN], 2: [BLOCKED]},
        "rows": {1: [APPROVED], 2: [REJECTED]},
        "cards": {1: 1, 2: 1},
    }
    seen |= change
    tally = count(
        [Payment(1, "approve"), Payment(2, "reject")], Found(**{**seen, "ran": Counter(seen["ran"])})
    )
    return {name for name, number in tally.items() if number and name not in SEEN}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, set()),
        ({"ran": {1: 2}}, {"run_twice"}),
        ({"ran": {1: 1, 2: 1}}, {"run_unapproved", "reported_wrong"}),
        ({"ran": {}}, {"lost", "told_wrong", "reported_wrong"}),
        ({"rows": {1: [APPROVED, APPROVED], 2: [REJECTED]}}, {"asked_twice"}),
        ({"rows": {1: [APPROVED]}}, {"undecided"}),
        ({"rows": {1: [{**APPROVED, "decisions": []}], 2: [REJECTED]}}, {"undecided"}),
        ({"rows": {1: [{**APPROVED, "consumed_at": None}], 2: [REJECTED]}}, {"run_unapproved"}),
        ({"rows": {1: [{**APPROVED, "outcome": "unknown"}], 2: [REJECTED]}}, {"reported_wrong"}),
        ({"rows": {1: [{**APPROVED, "outcome": None}], 2: [REJECTED]}}, {"reported_wrong"}),
        ({"cards": {1: 2, 2: 1}}, {"cards_twice"}),
        ({"ended": {1: [RAN]}}, {"without_end"}),
        ({"ended": {1: [BLOCKED], 2: [BLOCKED]}}, {"told_wrong"}),
        ({"ended": {1: [RAN], 2: [RAN]}}, {"told_wrong"}),
    ],
)  # fmt: skip
def test_each_fault_would_be_counted(change: dict[str, Any], found: set[str]) -> None:
    assert judge(**change) == found


def test_what_a_killed_runtime_had_in_its_hands_is_no_fault_and_else_it_is() -> None:
    silent = {
        "rows": {1: [{**APPROVED, "outcome": None}], 2: [REJECTED]},
        "ended": {1: [CUT_OFF], 2: [BLOCKED]},
    }
    assert judge(**silent, ran={}, runtimes_killed=1) == set()
    assert judge(**silent, ran={1: 1}, runtimes_killed=1) == set()
    assert judge(**silent, ran={}) == {"lost"}
    reported = {**silent, "rows": {1: [{**APPROVED, "outcome": "unknown"}], 2: [REJECTED]}}
    assert judge(**reported, ran={}, runtimes_killed=1) == {"lost"}
