"""Kept connections that the server has closed are noticed before they are used, without asking the server.

A restart of the server leaves every thread with a dead connection. An idle connection has nothing to read, unless the
server has said good-bye: one system call tells, where Django's own check costs a round trip per request.

Transactions that somebody waits for end with that somebody's deadline: see :mod:`portal.lib.deadline`.
"""

import select
import time
from contextlib import suppress
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg.pq import ExecStatus, TransactionStatus

from portal.lib import deadline

# Seconds after which a transaction's statements are told anew how little time is left.
RENEW = 0.1
# For the rest of a transaction; a pooler in between may serve the next one from another connection. A strict deadline
# bounds what runs as well as what waits.
BOUND = "SELECT set_config('lock_timeout', %(ms)s, true)"
WRITING = frozenset({"INSERT", "UPDATE", "DELETE"})
STRICT = f"{BOUND}, set_config('statement_timeout', %(ms)s, true)"


def is_direct(connection: "psycopg.Connection[Any]") -> bool:
    """Whether the server itself is on the other side: a pooler makes up the number that it gives for the process.

    Behind one that pools transactions, each may run in another process, and what one leaves there others find.
    """
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and bool(row[0] == connection.info.backend_pid)


class BoundedCursor(base.CursorMixin, psycopg.ClientCursor[Any]):
    """Bounds what a single writing statement waits for locks, as a transaction of its own."""

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        """Run one statement."""
        connection = self.connection
        alone = connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE
        if not (alone and deadline.serving() and str(query).lstrip()[:6].upper() in WRITING):
            return super().execute(query, params, **more)
        with connection.transaction():
            connection.execute(BOUND, {"ms": str(round(deadline.SINGLE * 1000))})
            return super().execute(query, params, **more)


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's, with a cheaper look at a kept connection, and transactions with a deadline."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # When the statements of this transaction were last told; ``None`` outside of one, or without a deadline.
        self._told_at: float | None = None

    def is_usable(self) -> bool:
        """Whether the server has not closed the connection: then there is something to read, its good-bye."""
        if self.connection is None or self.connection.closed:
            return False
        poller = select.poll()
        poller.register(self.connection.fileno(), select.POLLIN)
        return not poller.poll(0) or super().is_usable()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """A connection, which prepares statements and keeps settings only where nobody else shares its server side.

        Raises psycopg's ``OperationalError``.
        """
        connection = super().get_new_connection(conn_params)
        connection.autocommit = True  # as Django wants it; what follows is no transaction
        if is_direct(connection):
            if deadline.serving():
                connection.execute(f"SET lock_timeout = {round(deadline.SINGLE * 1000)}")
        else:
            connection.prepare_threshold = None
            connection.cursor_factory = BoundedCursor
        return connection

    def _set_autocommit(self, autocommit: bool) -> None:
        super()._set_autocommit(autocommit)  # type: ignore[misc]  # the stubs leave out Django's hooks for backends
        self._told_at = None
        bound = None if autocommit else deadline.current()
        if bound is None:
            return
        try:
            self._begin(bound)
        except BaseException:
            with suppress(psycopg.Error):
                self.connection.rollback()
                self.connection.autocommit = True
            raise

    def _begin(self, bound: deadline.Deadline) -> None:
        """Begin the transaction and bound it in one message, where the driver would send two."""
        milliseconds = max(1, round(bound.left() * 1000))
        text = f"BEGIN; SET LOCAL lock_timeout = {milliseconds}"
        if bound.strict:
            text += f"; SET LOCAL statement_timeout = {milliseconds}"
        with self.wrap_database_errors:
            result = self.connection.pgconn.exec_(text.encode())
            if result.status != ExecStatus.COMMAND_OK:
                raise psycopg.errors.error_from_result(result)
        self._told_at = time.monotonic()

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
