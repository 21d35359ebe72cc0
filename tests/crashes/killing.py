"""Processes that are killed and started again: the portal's, and the runtimes."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from examples.portal_process import ROOT, PortalProcess
from tests.crashes.agent import Orders
from tests.machinery.live import until

# Seconds until a process that was started must answer, and one that was asked to end must have ended.
START_SECONDS = 180.0
END_SECONDS = 60.0
# The words of each process's command line.
ROLES = {"portal": "serve", "worker": "worker", "beat": "beat"}


def descendants(pid: int) -> list[int]:
    """The processes below ``pid``, nearest first (Linux)."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children = [int(child) for child in (task / "children").read_text(encoding="ascii").split()]
            found += children + [below for child in children for below in descendants(child)]
    return found


def kill(process: "subprocess.Popen[bytes]") -> None:
    """SIGKILL for it and all below it at once, as when a container or its machine goes away."""
    for pid in [process.pid, *descendants(process.pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


class Part:
    """One of the portal's processes, by its role."""

    def __init__(self, portal: PortalProcess, role: str) -> None:
        self._portal = portal
        self._role = role
        self._arguments: tuple[str, ...] = ()

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The one that runs now."""
        return next(p for p in self._portal.processes if ROLES[self._role] in p.args)  # type: ignore[operator]

    def end(self, number: int = signal.SIGKILL) -> int:
        """Kill it with everything below it, or send another signal and wait for the end; returns the exit code."""
        process = self.process
        arguments: list[str] = process.args  # type: ignore[assignment]
        self._arguments = tuple(arguments[1:])
        if number == signal.SIGKILL:
            kill(process)
        else:
            process.send_signal(number)
            process.wait(END_SECONDS)
        self._portal.processes.remove(process)
        return process.returncode

    def start(self) -> None:
        """Start it as it was started before; the portal is waited for."""
        process = self._portal.spawn(*self._arguments)
        if self._role == "portal":
            until(
                lambda: process.poll() is not None or self._portal.answers(),
                seconds=START_SECONDS,
                what="the portal's return",
            )
            assert process.poll() is None, self._portal.log_tail()


class AgentProcess:
    """A runtime with its orders, started again and again until it has made all its calls."""

    def __init__(self, folder: Path, orders: Orders) -> None:
        self._file = orders.write(folder / f"{orders.name}.json")
        self._log = folder / f"{orders.name}.log"
        self.orders = orders
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        """Whether it is under way."""
        return self.process is not None and self.process.poll() is None

    @property
    def finished(self) -> bool:
        """Whether it has made all its calls. Fails when it ended in any other way that nobody asked for."""
        code = None if self.process is None else self.process.poll()
        assert code in (None, 0, -signal.SIGKILL), f"exit {code}: {self._log.read_text()[-3000:]}"
        return code == 0

    def start(self) -> None:
        """Start it, or start it again."""
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'runtime'}"}
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.crashes.agent", str(self._file)],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
            )

    def end(self, number: int = signal.SIGKILL) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(END_SECONDS)

    def stop(self) -> None:
        """Make sure that it doesn't outlive its test."""
        if self.runs:
            self.end()

    def wait(self, seconds: float) -> None:
        """Wait until all calls are made."""
        until(lambda: self.finished, seconds=seconds, what=f"the end of {self.orders.name}")


class Reaper:
    """Kills one process after another at random points of the work and starts it again."""

    def __init__(
        self,
        portal: PortalProcess,
        agents: list[AgentProcess],
        *,
        chance: random.Random,
        longest_stride: int,
        progress: Callable[[], int],
        after_kill: Callable[[], None],
    ) -> None:
        self._victims: list[tuple[str, Part | AgentProcess]] = [
            (role, Part(portal, role)) for role, word in ROLES.items() if _has(portal, word)
        ]
        self._victims += [("runtime", agent) for agent in agents]
        self._agents = agents
        self._chance = chance
        self._longest_stride = longest_stride
        self._progress = progress
        self._after_kill = after_kill
        self.kills: Counter[str] = Counter()

    async def reap(self) -> None:
        """Kill until the agents have finished: each process once in random order, and again."""
        while True:
            self._chance.shuffle(self._victims)
            for name, victim in self._victims:
                # By calls and not by seconds, so that a slow machine gets on, too.
                await self._work(self._chance.randint(1, self._longest_stride))
                if all(agent.finished for agent in self._agents):
                    return
                if isinstance(victim, AgentProcess) and not victim.runs:
                    continue
                await asyncio.to_thread(victim.end)
                self.kills[name] += 1
                self._after_kill()
                await asyncio.sleep(self._chance.uniform(0, 1))
                await asyncio.to_thread(victim.start)

    async def _work(self, calls: int) -> None:
        goal = self._progress() + calls
        # What is awaited happens in other processes and has no event here.
        while self._progress() < goal and not all(agent.finished for agent in self._agents):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        # Not always right after a call has ended.
        await asyncio.sleep(self._chance.uniform(0, 0.3))


def _has(portal: PortalProcess, word: str) -> bool:
    return any(word in process.args for process in portal.processes)  # type: ignore[operator]


def end_leases(portal: PortalProcess) -> None:
    """Let the leases of dead workers run out at once: what a test that has no 90 seconds does instead of waiting."""
    url = portal.environment["DATABASE_URL"]
    if url:
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE channels_app_delivery SET lease_until = now() WHERE lease IS NOT NULL")
        return
    now = datetime.now(UTC).replace(tzinfo=None).isoformat(" ")
    file = sqlite3.connect(portal.folder / "hookgate.sqlite3", timeout=20)
    with file:
        file.execute("UPDATE channels_app_delivery SET lease_until = ? WHERE lease IS NOT NULL", (now,))
    file.close()
