"""The writers of one process take turns in the order in which they came.

SQLite has one writer at a time and no queue: who finds it busy sleeps and looks again, each time a little longer, and
whoever looks at the right moment is next. Under steady writing some wait for seconds while others pass them by
(measured with 16 writers: ten seconds at worst, 1.7 in a queue), and a person's tap has three.
"""

import threading
from collections import deque
from typing import Any

from django.db.backends.sqlite3 import base

from portal.lib import closed, deadline


class FairLock:
    """A lock that is handed on to whoever has waited longest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def take(self, timeout_seconds: float) -> bool:
        """Wait for the turn, at most so long; says whether it has come."""
        with self._lock:
            if not self._taken:
                self._taken = True
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        if turn.acquire(timeout=timeout_seconds):
            return True
        with self._lock:
            if turn not in self._waiting:
                return True  # it came at the last moment
            self._waiting.remove(turn)
            return False

    def give(self) -> None:
        """Hand the turn on."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


# Milliseconds by which a connection's patience may be off.
CLOSE_MS = 50

# By database file.
_locks: dict[str, FairLock] = {}


# The stubs leave out Django's own hooks for backends.
class DatabaseWrapper(base.DatabaseWrapper):
    """Django's; its transactions wait in that queue before they begin. Other processes meet at the file's own lock."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held: FairLock | None = None
        self._busy_ms = 0

    def get_new_connection(self, conn_params: Any) -> Any:
        """A connection, in the sense of the driver, to a file that is this account's alone."""
        closed.make_database(str(conn_params["database"]))
        connection = super().get_new_connection(conn_params)
        # What the driver was given by the settings; whoever waits for less says so with the first statement.
        self._busy_ms = round(self.settings_dict["OPTIONS"].get("timeout", 5) * 1000)
        return connection

    def _patience(self) -> float:
        """Seconds that a wait for the writers' lock may last now."""
        limit: float = self.settings_dict["OPTIONS"].get("timeout", 5)
        bound = deadline.current()
        return min(limit, bound.left()) if bound else limit

    def _be_patient(self, connection: Any, seconds: float) -> None:
        """For other processes at the file; one's own wait in the queue."""
        milliseconds = round(seconds * 1000)
        if abs(milliseconds - self._busy_ms) > CLOSE_MS:
            connection.execute(f"PRAGMA busy_timeout = {milliseconds}")
            self._busy_ms = milliseconds

    def create_cursor(self, name: str | None = None) -> Any:
        """A cursor; a statement outside of transactions is as impatient as whoever waits for it."""
        if self._held is None:
            try:
                seconds = self._patience()
            except deadline.OutOfTime:
                seconds = 0.0  # it may still read
            self._be_patient(self.connection, seconds)
        return super().create_cursor(name)

    def _start_transaction_under_autocommit(self) -> None:
        lock = _locks.setdefault(str(self.settings_dict["NAME"]), FairLock())
        if not lock.take(self._patience()):
            raise deadline.OutOfTime("database is locked")
        self._held = lock
        try:
            self._be_patient(self.connection, self._patience())
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._give()
            raise

    def _commit(self) -> None:
        deadline.check()
        super()._commit()  # type: ignore[misc]
        deadline.kept()
        self._give()

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc]
        finally:
            self._give()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]
        finally:
            self._give()

    def _give(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.give()
