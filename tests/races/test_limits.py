"""Sixteen at once for each user and connector of a rate limit: as many go on as it allows, and the others know when."""

import time
import uuid
from functools import partial
from typing import Any

import pytest
import time_machine

from tests import make
from tests.api.test_limits import limit_of
from tests.confirmations.world import World
from tests.races import doors
from tests.races.crowd import at_once
from tests.races.tally import Tally

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT, WINDOW, CROWD = 5, 60, 16
# What comes after the first crowd is looked at in one round of so many.
LATER = 50
# Seconds by which a caller is told later than need be, at most.
MOMENT = 0.003


class Windows:
    """An agent's limit, asked by a crowd for each of three windows at once: of two users, and of two connectors."""

    def __init__(self, world: World) -> None:
        limit = {"max_calls": LIMIT, "window_seconds": WINDOW}
        make.class_hook(world.agent, "connector_rate_limit", params=limit)
        make.publish(world.agent)
        self._agent = world.agent.slug
        self._hook = limit_of(world.agent)
        self._runtime = doors.runtime(world)

    def ask(self, connector: str, user: str, call: uuid.UUID) -> dict[str, Any]:
        """Count one call."""
        body = {
            "agent": self._agent,
            "hook": self._hook,
            "connector": connector,
            "user": user,
            "call": str(call),
        }
        answer = self._runtime.post("/limits/acquire", body, runtime=f"worker-{call}")
        assert answer.status == 200, answer
        return answer.body

    def crowd(self, user: str, calls: list[uuid.UUID]) -> list[list[dict[str, Any]]]:
        """The answers to ``calls``, as many for each window."""
        windows = [("oa", user), ("oa", f"{user}, too"), ("crm", user)]
        size = len(calls) // len(windows)
        asked = [(*windows[index // size], call) for index, call in enumerate(calls)]
        answers = at_once(*(partial(self.ask, *one) for one in asked))
        return [answers[at : at + size] for at in range(0, len(answers), size)]


def fresh() -> list[uuid.UUID]:
    """Calls that nobody has made yet."""
    return [uuid.uuid4() for _ in range(3 * CROWD)]


def allowed(answers: list[dict[str, Any]]) -> int:
    """How many of them may go on."""
    return sum(answer["allowed"] for answer in answers)


def test_as_many_go_on_as_the_window_allows(world: World) -> None:
    windows = Windows(world)
    tally = Tally(f"{CROWD} calls at once for {LIMIT} places, three times")
    for number, _ in enumerate(tally.rounds(3)):
        user, calls = f"u{number}", fresh()
        # Each crowd meets at one moment, however long it takes.
        with time_machine.travel(time.time(), tick=False) as clocks:
            first = windows.crowd(user, calls)
            waits = [one["retry_after_seconds"] for answers in first for one in answers if not one["allowed"]]
            tally.fault("too many", sum(max(0, allowed(answers) - LIMIT) for answers in first))
            tally.fault("too few", sum(max(0, LIMIT - allowed(answers)) for answers in first))
            tally.fault("told", sum(not WINDOW <= wait < WINDOW + MOMENT for wait in waits))
            if number % LATER == 0:
                tally.fault("changed by a repeat", windows.crowd(user, calls) != first)
                clocks.shift(max(waits) - MOMENT)
                tally.fault("too early", sum(map(allowed, windows.crowd(user, fresh()))))
                clocks.shift(MOMENT)
                again = [allowed(answers) for answers in windows.crowd(user, fresh())]
                tally.fault("not let in when told", again != [LIMIT] * 3)
        tally.seen("allowed", sum(map(allowed, first)))
        tally.seen("told when", len(waits))
    tally.record()
