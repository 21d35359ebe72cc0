"""Sixteen runtimes on connections of their own that ask for a rate limit at the same moment."""

import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx

from tests.soak import counts

CROWD, PLACES = 16, 5
PATIENCE = 60.0
ROUNDS = 200 if counts.SOAK else 2
# The moment to come back is waited for in one round of so many.
WAITING = 10
# Added to the stage's config file, below its agents.
AGENT = f"""
      - slug: limited
        name: Limited
        hooks:
          class_hooks:
            - {{name: connector_rate_limit, params: {{max_calls: {PLACES}, window_seconds: 3600}}}}
            - {{name: connector_rate_limit, params: {{max_calls: 1, window_seconds: 1}}}}
"""


class Crowd:
    """The runtimes; use it as ``with``."""

    def __init__(self, url: str, key: str) -> None:
        self._stack = ExitStack()
        # Its connections are as many as there are requests at once.
        self._client = self._stack.enter_context(
            httpx.Client(
                base_url=f"{url}/api/v1",
                headers={"Authorization": f"Bearer {key}"},
                timeout=PATIENCE,
                trust_env=False,
            )
        )
        self._pool = self._stack.enter_context(ThreadPoolExecutor(CROWD))
        self._barrier = threading.Barrier(CROWD, timeout=PATIENCE)
        manifest = self._client.get("/agents/limited/registry").json()
        declared = [hook for hook in manifest["hooks"] if hook["name"] == "connector_rate_limit"]
        self._long, self._short = [hook["id"] for hook in declared]

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def _ask(self, number: int, hook: str, user: str, call: str) -> dict[str, Any]:
        body = {"agent": "limited", "hook": hook, "connector": "oa", "user": user, "call": call}
        runtime = {"Hookgate-Runtime": f"worker-{number}"}
        answer = self._client.post("/limits/acquire", json=body, headers=runtime)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def at_once(self, user: str, calls: list[str]) -> list[dict[str, Any]]:
        """The answers to one call of each runtime, for the window of an hour."""

        def run(number: int) -> dict[str, Any]:
            self._barrier.wait()
            return self._ask(number, self._long, user, calls[number])

        return list(self._pool.map(run, range(CROWD)))

    def come_back(self, user: str) -> bool:
        """Whether one who was refused for the window of a second is let in when told so."""
        while (answer := self._ask(0, self._short, user, str(uuid.uuid4())))["allowed"]:
            pass
        time.sleep(answer["retry_after_seconds"])
        return bool(self._ask(1, self._short, user, str(uuid.uuid4()))["allowed"])


def play(url: str, key: str, *, database: str) -> None:
    """Play the rounds, each for a new user, and put the counts on record. Raises ``AssertionError`` for a fault."""
    faults, allowed = Counter[str](), 0
    with Crowd(url, key) as crowd:
        for number in range(ROUNDS):
            user, calls = f"u-{uuid.uuid4()}", [str(uuid.uuid4()) for _ in range(CROWD)]
            answers = crowd.at_once(user, calls)
            places = sum(answer["allowed"] for answer in answers)
            waits = [answer["retry_after_seconds"] for answer in answers if not answer["allowed"]]
            allowed += places
            faults["too many"] += max(0, places - PLACES)
            faults["too few"] += max(0, PLACES - places)
            faults["told"] += sum(not 0 < wait <= 3600.002 for wait in waits)
            faults["changed by a repeat"] += crowd.at_once(user, calls) != answers
            if number % WAITING == 0:
                faults["not let in when told"] += not crowd.come_back(user)
    counts.record(
        f"rate limit over HTTP, {CROWD} at once", rounds=ROUNDS, faults=dict(faults), database=database,
        allowed=allowed, refused=ROUNDS * CROWD - allowed,
    )  # fmt: skip
