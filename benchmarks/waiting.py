"""What a thousand waiting requests cost the process that holds them, beside the same process with nobody waiting.

Memory is beside as many idle connections. Read from outside: ``/proc``, and PostgreSQL's own count of transactions.
"""

import os
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from benchmarks.measure import Figure
from benchmarks.serving import BARE
from benchmarks.stage import AGENT, Stage
from tests import services

COUNT = 1000
# Long enough for a task that runs every ten seconds to show up in both.
SECONDS = 12.0
# Seconds in a row, and of CPU in each of them: on a busy machine one alone may be chance, and an idle process of
# PostgreSQL reports what it has counted after ten seconds.
QUIET = 12
SETTLED = 0.03
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class State:
    """The server process at one moment, and over ``SECONDS`` from then."""

    kibibytes: int
    threads: int
    connections: int
    cpu_percent: float
    transactions: int


class Watcher:
    """Looks at the server from outside."""

    def __init__(self, stage: Stage) -> None:
        self._process = Path(f"/proc/{stage.pid}")
        self._database = urlsplit(stage.environment["DATABASE_URL"]).path.lstrip("/")

    def settle(self) -> None:
        """Wait until it has had nothing to do for ``QUIET`` seconds. Raises ``TimeoutError``."""
        quiet, deadline = 0, time.monotonic() + 120
        while time.monotonic() < deadline:
            before = self._cpu()
            time.sleep(1)
            quiet = quiet + 1 if self._cpu() - before < SETTLED else 0
            if quiet == QUIET:
                return
        raise TimeoutError("the server does not come to rest")

    def look(self) -> State:
        """Its state now, and what it does in the next ``SECONDS``."""
        self.settle()
        cpu, transactions = self._cpu(), self._transactions()
        time.sleep(SECONDS)
        busy = (self._cpu() - cpu) / SECONDS
        return State(
            self._status("VmRSS"),
            self._status("Threads"),
            self._ask("SELECT count(*) FROM pg_stat_activity WHERE datname = %s"),
            busy * 100,
            self._transactions() - transactions,
        )

    def kibibytes(self) -> int:
        """Its resident memory, at rest."""
        self.settle()
        return self._status("VmRSS")

    def _cpu(self) -> float:
        fields = (self._process / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def _status(self, name: str) -> int:
        lines = (self._process / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))

    def _transactions(self) -> int:
        return self._ask("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s")

    def _ask(self, query: str) -> int:
        # From another database, so that asking is not counted.
        with psycopg.connect(services.postgres_url()) as connection:
            row = connection.execute(query, [self._database]).fetchone()
        assert row is not None
        return int(row[0])


def run(stage: Stage) -> list[Figure]:
    """The figures; about a minute."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # PostgreSQL's own housekeeping looks into the database now and then, and its transactions count like any others.
    _set_autovacuum("off")
    try:
        return _run(stage)
    finally:
        _set_autovacuum("on")
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _set_autovacuum(value: str) -> None:
    with psycopg.connect(services.postgres_url(), autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET autovacuum = {value}")
        connection.execute("SELECT pg_reload_conf()")


def _run(stage: Stage) -> list[Figure]:
    ids = stage.inside("benchmarks.pending", AGENT, str(COUNT))
    watcher = Watcher(stage)
    # Once around before anything is counted: code is loaded, the pool of threads is full.
    with held(stage, [_path(id) for id in ids[:50]]):
        watcher.settle()
    none = watcher.look()
    with held(stage, [BARE] * COUNT):
        idle = watcher.kibibytes() - none.kibibytes
    with held(stage, [_path(id) for id in ids]) as connections:
        waiting = watcher.look()
        still = COUNT - sum(1 for connection in connections if _is_answered(connection))
    # What idle connections took before is used again: counted from nobody, nothing is left out.
    each, idle_each = (waiting.kibibytes - none.kibibytes) / COUNT, max(idle, 0) / COUNT
    return [
        Figure("waiting_requests", still, COUNT, "requests", "all still wait", still == COUNT),
        Figure("waiting_memory_each", each, idle_each, "KiB", "ours ≤ 60 KiB", each <= 60),
        *_compare(waiting, none),
    ]


def _compare(waiting: State, none: State) -> list[Figure]:
    """The server with everybody waiting beside the server with nobody."""
    threads, connections, cpu = waiting.threads, waiting.connections, waiting.cpu_percent
    more = waiting.transactions - none.transactions
    return [
        Figure("waiting_threads", threads, none.threads, "threads", "ours ≤ 40", threads <= 40),
        Figure(
            "waiting_connections", connections, none.connections, "connections", "ours ≤ 5", connections <= 5
        ),
        Figure("waiting_cpu", cpu, none.cpu_percent, "% CPU", "ours < 3 %", cpu < 3),
        Figure(
            "waiting_transactions",
            waiting.transactions,
            none.transactions,
            f"in {SECONDS:g} s",
            "ours − baseline ≤ 0",
            more <= 0,
        ),
    ]


def _is_answered(connection: socket.socket) -> bool:
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    return bool(poller.poll(0))


def _path(id: str) -> str:
    return f"/api/v1/confirmations/{id}?wait=60"


@contextmanager
def held(stage: Stage, paths: list[str]) -> Iterator[list[socket.socket]]:
    """One open connection per path, each with its request sent."""
    address = urlsplit(stage.url)
    connections = []
    try:
        for path in paths:
            connection = socket.create_connection((address.hostname, address.port), timeout=30)
            connections.append(connection)
            head = (
                f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {stage.key}\r\n\r\n"
            )
            connection.sendall(head.encode())
        yield connections
    finally:
        for connection in connections:
            connection.close()
