"""Runtimes are killed and the portal is away half of the time: the call log ends with every call that started, once."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.portal_process import ROOT, PortalProcess
from tests import services
from tests.crashes.proxy import Proxy
from tests.machinery.live import until
from tests.runtime.caller import Orders
from tests.soak import counts

CALLS = 10_000 if counts.SOAK else 1_000
KILLS = 5 if counts.SOAK else 2
# Seconds: the longest time that the portal is there, and that it is away.
SWING = 1.5 if counts.SOAK else 0.4
LIMIT = 900.0 if counts.SOAK else 120.0
AT_ONCE = 8
pytestmark = [pytest.mark.soak] if counts.SOAK else []


CONFIG = """
apiVersion: hookgate/v1
organizations:
  - slug: acme
    members: [{user: alice, role: admin}]
    agents: [{slug: procurement, tools: [{name: calculator, writes: false}]}]
"""


# In one process: each start takes longer than the test has.
SET_UP = """
from django.core.management import call_command
call_command("apply", "{}")
call_command("issue_key", org="acme")
call_command("issue_token", user="alice")
"""


@dataclass(frozen=True)
class Stage:
    """A portal of its own, a runtime key and an admin's token."""

    portal: PortalProcess
    key: str
    token: str


@pytest.fixture(params=["sqlite", "postgresql"] if counts.SOAK else ["sqlite"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Nothing but the web side: nobody is asked here."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    (folder / "acme.yaml").write_text(CONFIG)
    environment = {}
    if request.param == "postgresql":
        environment = {"DATABASE_URL": services.new_database(), "REDIS_URL": services.redis_url()}
    with PortalProcess(folder, environment=environment) as portal:
        services.migrate(portal)
        key, token = portal.manage("shell", "-v", "0", "-c", SET_UP.format(folder / "acme.yaml")).split()[-2:]
        portal.start()
        yield Stage(portal, key, token)


class Caller:
    """One process after another that makes calls, and what they left behind."""

    def __init__(self, folder: Path, url: str, key: str) -> None:
        self._folder = folder
        self._url, self._key = url, key
        self._process: subprocess.Popen[bytes] | None = None
        self.ledger, self.journal = folder / "ledger", folder / "journal"

    def start(self, prefix: str, calls: int) -> None:
        """Another process."""
        orders = Orders(
            url=self._url, key=self._key, ledger=str(self.ledger), journal=str(self.journal), prefix=prefix,
            calls=calls, tool="calculator", at_once=AT_ONCE, tool_seconds=0.002, insist=True,
        )  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'runtime'}"}
        with (self._folder / "caller.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.runtime.caller", orders.write()],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
            )

    def end(self, number: int = signal.SIGKILL) -> None:
        """End the process, however far it is."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)

    def reach(self, goal: int) -> None:
        """Wait until so many tools have begun."""
        until(lambda: len(self.started()) >= goal, seconds=LIMIT, what=f"call {goal}")

    def started(self) -> list[str]:
        """Every tool that began, by its call's id."""
        return self.ledger.read_text().split() if self.ledger.exists() else []

    def ended(self) -> dict[str, str]:
        """How each call ended of which the model heard."""
        text = self.journal.read_text() if self.journal.exists() else ""
        ends = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return {end["id"]: end["status"] for end in ends}


@contextmanager
def swinging(proxy: Proxy, chance: random.Random) -> Iterator[None]:
    """The portal is there and away in turns, each half of the time."""
    over = threading.Event()

    def swing() -> None:
        while not over.is_set():
            for change in (proxy.cut, proxy.mend):
                change()
                over.wait(chance.uniform(0.1, SWING))

    thread = threading.Thread(target=swing, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        proxy.mend()


def stored(stage: Stage) -> list[dict[str, Any]]:
    """The whole call log, as an admin reads it."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = ""
    with httpx.Client(
        base_url=f"{stage.portal.url}/api/v1", headers={"Authorization": f"Bearer {stage.token}"}, trust_env=False,
        timeout=60,
    ) as client:  # fmt: skip
        while cursor is not None:
            answer = client.get("/calls", params={"limit": 200, **({"cursor": cursor} if cursor else {})})
            page = answer.raise_for_status().json()
            rows += page["results"]
            cursor = page["next"]
    return rows


def test_every_call_that_started_is_in_the_log_once(stage: Stage, tmp_path: Path) -> None:
    chance = random.Random(7)
    with Proxy(stage.portal.url) as proxy:
        caller = Caller(tmp_path, proxy.url, stage.key)
        try:
            with swinging(proxy, chance):
                for run in range(KILLS):
                    caller.start(f"run-{run}", CALLS)
                    caller.reach(int(CALLS * (run + chance.uniform(0.5, 1)) / (KILLS + 1)))
                    caller.end()
                caller.start("last", CALLS - len(caller.started()))
                caller.reach(CALLS)
            until(
                lambda: (
                    {*caller.started(), *caller.ended()} <= {row["tool_call_id"] for row in stored(stage)}
                ),
                seconds=LIMIT,
                what="the last entry",
            )
        finally:
            caller.end(signal.SIGTERM)
    compare(caller, stored(stage), stage)
    assert not list((tmp_path / "spool").rglob("*.jsonl"))


def compare(caller: Caller, rows: list[dict[str, Any]], stage: Stage) -> None:
    """Put what the tool and the model know beside what the portal has."""
    started, ended = caller.started(), caller.ended()
    logged = {row["tool_call_id"]: row["status"] for row in rows}
    times = Counter(row["tool_call_id"] for row in rows)
    # A process can die between its mark and the tool's first step: nobody can know then, and the log says so.
    unseen = {name: status for name, status in logged.items() if name not in started and name not in ended}
    cut_off = [name for name in started if name not in ended]
    counts.record(
        "call log, runtime killed and portal away",
        database="postgresql" if stage.portal.environment["DATABASE_URL"] else "sqlite",
        rounds=len(started),
        faults={
            "lost": len({*started, *ended} - logged.keys()),
            "twice": sum(count - 1 for count in times.values()),
            "run_twice": len(started) - len(set(started)),
            "invented": sum(status != "unknown" for status in unseen.values()),
            "wrong_end": sum(logged.get(name) != status for name, status in ended.items())
            + sum(logged.get(name) not in {"unknown", "succeeded"} for name in cut_off),
            "unknown_without_a_kill": max(
                0, sum(status == "unknown" for status in logged.values()) - KILLS * AT_ONCE
            ),
        },
        killed=KILLS,
        logged=len(rows),
        unknown=sum(status == "unknown" for status in logged.values()),
        marked_only=len(unseen),
        blocked=sum(status == "blocked" for status in logged.values()),
    )
    assert any(logged[name] == "unknown" for name in cut_off)
