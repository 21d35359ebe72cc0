"""When the database can't do its work: what a client is told, and what is logged, once per cause and not per request.

What is meant are failures from outside: the server is away, the disk is full, the file is locked or may not be written.
A defect of ours (an unknown column, say) is none of them, and stays an error with its traceback.
"""

import logging
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog
from django.db import DatabaseError, InterfaceError, InternalError, OperationalError, connection

from portal.lib.deadline import OutOfTime, within
from portal.lib.problems import Problem

# A cause is logged at most once in so many seconds.
REPEAT = 60.0
# Seconds between the tries of what must not get lost.
PAUSE = 0.5
# Seconds that a note on the side may wait for the database, while somebody waits for what it is beside.
NOTE_SECONDS = 0.5

ERRORS = (OperationalError, InterfaceError, InternalError)

# By the primary code of SQLite (the extended codes have it in their lowest byte) and by PostgreSQL's SQLSTATE.
_SQLITE = {
    sqlite3.SQLITE_FULL: "storage_full",
    sqlite3.SQLITE_BUSY: "database_busy",
    sqlite3.SQLITE_LOCKED: "database_busy",
    sqlite3.SQLITE_READONLY: "database_read_only",
    sqlite3.SQLITE_IOERR: "database_unavailable",
    sqlite3.SQLITE_CANTOPEN: "database_unavailable",
}
_POSTGRES = {
    "53100": "storage_full",
    "25006": "database_read_only",
    # The server has as many connections as it takes.
    "53300": "overloaded",
    "40001": "database_busy",
    "40P01": "database_busy",
    "55P03": "database_busy",
    # A statement, or a transaction, that took longer than whoever waits for it may wait.
    "57014": "database_busy",
    "25P03": "database_busy",
    "25P04": "database_busy",
}
# Connections that were refused, cut off or not to be had (classes 08 and 53), a server that stops or starts, and one
# whose disk fails it.
_POSTGRES_AWAY = ("08", "53", "57P", "58")

# Status, seconds until trying again is worth it, and the words for people.
_TOLD = {
    "storage_full": (
        507,
        5.0,
        "The disk of the database is full; nothing was changed. Free space on it: no restart is needed.",
    ),
    "database_busy": (503, 1.0, "The database is held by somebody else; nothing was changed. Try again."),
    "database_read_only": (
        503,
        5.0,
        "The database may only be read; nothing was changed. Let the portal write to it again.",
    ),
    "overloaded": (
        503,
        2.0,
        "More is asked of the portal than it can do at once: every connection that the database allows is in use. "
        "Nothing was changed. Try again.",
    ),
    "database_unavailable": (503, 2.0, "The database can't be reached; nothing was changed. Try again."),
}

T = TypeVar("T")

log = structlog.get_logger(__name__)
_lock = threading.Lock()
_logged: dict[str, float] = {}


def explain(error: BaseException | None) -> Problem | None:
    """503 or 507 for an outage of the database, with ``Retry-After``; ``None`` for any other error."""
    code = _code(error) if isinstance(error, ERRORS) else None
    if code is None:
        return None
    status, seconds, words = _TOLD[code]
    return Problem(status, code, words, retry_after=seconds)


def words(code: str) -> str:
    """What people are told about a code."""
    return _TOLD[code][2]


def _code(error: BaseException) -> str | None:
    if isinstance(error, OutOfTime):
        return "database_busy"
    cause: Any = error.__cause__ or error
    if isinstance(cause, sqlite3.Error):
        return _SQLITE.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF)
    state: str | None = getattr(cause, "sqlstate", None)
    if state in _POSTGRES:
        return _POSTGRES[state]
    # Without a state the driver itself failed: no connection, or none any more.
    away = state.startswith(_POSTGRES_AWAY) if state else not isinstance(error, InternalError)
    return "database_unavailable" if away else None


def note(error: BaseException | None) -> Problem | None:
    """:func:`explain`, and log the cause unless that has been done within the last minute."""
    problem = explain(error)
    if problem is None:
        return None
    now = time.monotonic()
    with _lock:
        if now - _logged.get(problem.code, -REPEAT) < REPEAT:
            return problem
        _logged[problem.code] = now
    # The driver's words name the server or the file, and no secret.
    log.error("database.failed", code=problem.code, error=str(error).strip()[:300], remedy=problem.detail)
    return problem


@contextmanager
def tolerated() -> Iterator[None]:
    """For a note on the side, whose loss harms nobody: an outage in the block is logged, and that is all.

    Not inside a transaction, which such an error would end.
    """
    try:
        with within(NOTE_SECONDS, strict=False):
            yield
    except DatabaseError as error:
        if note(error) is None:
            raise


def persist(work: Callable[[], T], *, seconds: float) -> T:
    """Do ``work``, again and again while the database is away, for at most ``seconds``. Raises what it raised last."""
    give_up = time.monotonic() + seconds
    while True:
        try:
            return work()
        except ERRORS as error:
            if note(error) is None or time.monotonic() > give_up:
                raise
        time.sleep(PAUSE)
        # A connection that has failed does not mend; the next try is to get another one.
        connection.close_if_unusable_or_obsolete()


class OnceFilter(logging.Filter):
    """Holds back the traceback that every request would log while the database is away: its cause is logged once."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line goes out."""
        return not (record.exc_info and note(record.exc_info[1]))


def drop_repeated(logger: Any, method: str, event: Any) -> Any:
    """A structlog processor: the same for our own lines, whose tracebacks are text before any filter sees them."""
    error = event.get("exc_info")
    if isinstance(error, tuple):
        error = error[1]
    elif error is True:
        error = sys.exc_info()[1]
    if isinstance(error, BaseException) and note(error):
        raise structlog.DropEvent
    return event
