"""A database that fails where a test says."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast
from unittest import mock

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

MESSAGE = "the database has gone away"
T = TypeVar("T")


class Counter:
    """How many statements and commits have passed, and how many were made to fail."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0
        self._lock = threading.Lock()

    def step(self, fails: Callable[[int], bool]) -> None:
        with self._lock:
            number, self.passed = self.passed, self.passed + 1
            failing = fails(number)
            self.failed += failing
        if failing:
            raise OperationalError(MESSAGE)


@contextmanager
def failing(fails: Callable[[int], bool]) -> Iterator[Counter]:
    """Raise ``OperationalError`` in the place of each statement or commit for whose number ``fails`` says so."""
    counter = Counter()
    # Private, and the one place that every statement and every commit passes.
    cursor, connection = cast("Any", CursorWrapper), cast("Any", BaseDatabaseWrapper)
    execute, commit = cursor._execute_with_wrappers, connection._commit

    def run(self: Any, sql: Any, params: Any, many: bool, executor: Any) -> Any:
        # A rollback is what a lost connection amounts to anyway.
        if not str(sql).startswith("ROLLBACK"):
            counter.step(fails)
        return execute(self, sql, params, many, executor)

    def end(self: Any) -> Any:
        counter.step(fails)
        return commit(self)

    with (
        mock.patch.object(CursorWrapper, "_execute_with_wrappers", run),
        mock.patch.object(BaseDatabaseWrapper, "_commit", end),
    ):
        yield counter


def each_place(attempt: Callable[[], T], check: Callable[[T], None]) -> int:
    """Repeat ``attempt`` with its first statement failing, then its second, and so on until none is left to fail.

    ``check`` judges what each attempt returned, with the database working again. Returns how many places there were.
    """
    for place in range(500):
        with failing(lambda number, place=place: number == place) as counter:  # type: ignore[misc]
            result = attempt()
        check(result)
        if not counter.failed:
            return place
    raise AssertionError("more than 500 statements")
