"""Pooled connections that the server has closed are noticed before a request gets one, without asking the server.

A restart of the server leaves a pool full of dead connections. An idle connection has nothing to read, unless the
server has said good-bye: one system call tells, where the pool's own check costs a round trip per request.

Transactions that somebody waits for end with that somebody's deadline: see :mod:`portal.lib.deadline`.
"""

import select
import time
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolTimeout

from portal.lib import deadline

# Seconds after which a transaction's statements are told anew how little time is left.
RENEW = 0.1
# For the rest of a transaction; a pooler in between may serve the next one from another connection. A strict deadline
# bounds what runs as well as what waits.
BOUND = "SELECT set_config('lock_timeout', %(ms)s, true)"
STRICT = f"{BOUND}, set_config('statement_timeout', %(ms)s, true)"


class PoolExhausted(psycopg.OperationalError):
    """Every connection of the pool was in use, and stayed so for as long as anybody may wait for one."""

    sqlstate = "53300"  # too_many_connections, as the server says it


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's, with that check in its pool, a word for a pool that is all in use, and transactions with a deadline."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # When the statements of this transaction were last told; ``None`` outside of one, or without a deadline.
        self._told_at: float | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """A connection. Raises :class:`PoolExhausted` where nothing is wrong with the server."""
        pool = self.pool
        failed = _failures(pool)
        try:
            return super().get_new_connection(conn_params)
        except PoolTimeout as error:
            stats = pool.get_stats()
            if stats["pool_size"] >= stats["pool_max"] and _failures(pool) == failed:
                raise PoolExhausted(f"all {stats['pool_max']} connections are in use") from error
            raise

    @property
    def pool(self) -> Any:
        """The pool of this process, ``None`` without one."""
        found: Any = super().pool
        # Django leaves no way to hand the pool a check of one's own.
        if found is not None and found._check is None:
            found._check = partial(refuse_dead, found)
        return found

    def _configure_connection(self, connection: Any) -> bool:
        """Of a new connection, once: what single statements wait for locks; transactions are told their own time."""
        commit: bool = super()._configure_connection(connection)  # type: ignore[misc]
        if not deadline.serving():
            return commit
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {round(deadline.SINGLE * 1000)}")
        return True

    def _set_autocommit(self, autocommit: bool) -> None:
        super()._set_autocommit(autocommit)  # type: ignore[misc]  # the stubs leave out Django's hooks for backends
        self._told_at = None
        bound = None if autocommit else deadline.current()
        if bound is None:
            return
        try:
            self._tell(bound)
        except BaseException:
            with suppress(psycopg.Error):
                self.connection.rollback()
                self.connection.autocommit = True
            raise

    def _tell(self, bound: deadline.Deadline) -> None:
        milliseconds = str(max(1, round(bound.left() * 1000)))
        with self.wrap_database_errors, self.connection.cursor() as cursor:
            cursor.execute(STRICT if bound.strict else BOUND, {"ms": milliseconds})
        self._told_at = time.monotonic()

    def create_cursor(self, name: str | None = None) -> Any:
        """A cursor, whose statement waits no longer than whoever waits for it."""
        if self._told_at is not None and time.monotonic() - self._told_at > RENEW:
            bound = deadline.current()
            # A transaction that has failed takes nothing but its end.
            if bound is not None and self.connection.info.transaction_status == TransactionStatus.INTRANS:
                self._tell(bound)
        return super().create_cursor(name)

    def _commit(self) -> None:
        deadline.check()
        super()._commit()  # type: ignore[misc]
        deadline.kept()


def _failures(pool: Any) -> tuple[int, int]:
    """How many connections of a pool were not to be had, or were lost, so far."""
    stats = pool.get_stats() if pool is not None else {}
    return stats.get("connections_errors", 0), stats.get("connections_lost", 0)


def refuse_dead(pool: Any, connection: "psycopg.Connection[Any]") -> None:
    """Raise ``psycopg.OperationalError`` for a connection that the server has closed, and look through the others."""
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    if poller.poll(0):
        pool.check()
        raise psycopg.OperationalError("the server has closed the connection")
