"""The writers of one process take turns in the order in which they came.

SQLite has one writer at a time and no queue: who finds it busy sleeps and looks again, each time a little longer, and
whoever looks at the right moment is next. Under steady writing some wait for seconds while others pass them by
(measured with 16 writers: ten seconds at worst, 1.7 in a queue), and a person's tap has three.
"""

import threading
from collections import deque
from typing import Any

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError


class Turns:
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


# By database file.
_turns: dict[str, Turns] = {}


# The stubs leave out Django's own hooks for backends.
class DatabaseWrapper(base.DatabaseWrapper):
    """Django's; its transactions wait in that queue before they begin. Other processes meet at the file's own lock."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held: Turns | None = None

    def _start_transaction_under_autocommit(self) -> None:
        turns = _turns.setdefault(str(self.settings_dict["NAME"]), Turns())
        if not turns.take(self.settings_dict["OPTIONS"].get("timeout", 5)):
            raise OperationalError("database is locked")
        self._held = turns
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._give()
            raise

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc]
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
