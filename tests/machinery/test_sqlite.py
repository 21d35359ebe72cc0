"""SQLite's writers within one process: in the order in which they came."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from portal.models import Organization
from portal.sqlite import base
from portal.sqlite.base import FairLock
from tests import make
from tests.machinery.live import until

WRITERS = 6


def queue_up(count: int, work: Callable[[int], Any], waiting: Callable[[], int]) -> list[threading.Thread]:
    """Threads that do ``work`` and that began to wait one after the other."""
    threads = []
    for index in range(count):
        thread = threading.Thread(target=work, args=(index,))
        thread.start()
        until(lambda: waiting() == index + 1, what=f"waiter {index}")  # noqa: B023  # asked before it changes
        threads.append(thread)
    return threads


def test_the_turn_goes_to_who_has_waited_longest() -> None:
    turns, order = FairLock(), list[int]()

    def work(index: int) -> None:
        assert turns.take(10)
        order.append(index)
        turns.give()

    assert turns.take(0)
    threads = queue_up(WRITERS, work, lambda: len(turns._waiting))
    turns.give()
    for thread in threads:
        thread.join(10)
    assert order == list(range(WRITERS))
    assert turns.take(0)


def test_who_gives_up_is_passed_over() -> None:
    turns = FairLock()
    assert turns.take(0)
    assert not turns.take(0.05)
    turns.give()
    assert turns.take(0)
    assert not turns.take(0)


@pytest.fixture
def turns(transactional_db: None) -> FairLock:
    """The queue of the test's database."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL has a queue of its own")
    with transaction.atomic():
        return base._locks[str(connection.settings_dict["NAME"])]


def test_transactions_begin_in_the_order_in_which_they_came(turns: FairLock) -> None:
    order: list[int] = []

    def work(index: int) -> None:
        with transaction.atomic():
            order.append(index)
            make.organization(f"o{index}")
        connection.close()

    with transaction.atomic():
        make.organization("first")
        threads = queue_up(WRITERS, work, lambda: len(turns._waiting))
    for thread in threads:
        thread.join(10)
    assert order == list(range(WRITERS))
    assert Organization.objects.count() == WRITERS + 1


def test_a_transaction_that_fails_hands_the_turn_on(turns: FairLock) -> None:
    with suppress(ZeroDivisionError), transaction.atomic():
        raise ZeroDivisionError
    assert not turns._taken
    with transaction.atomic():
        connection.close()
        assert not turns._taken
    with transaction.atomic():
        make.organization("acme")
    assert not turns._taken


def test_a_queue_that_does_not_move_is_a_locked_database(
    turns: FairLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 0.1)
    assert turns.take(0)
    began = time.monotonic()
    with pytest.raises(OperationalError, match="locked"), transaction.atomic():
        make.organization("acme")
    turns.give()
    assert 0.05 < time.monotonic() - began < 5
    with transaction.atomic():
        make.organization("acme")
