"""How long whoever waits for an answer waits, as far as the database is concerned.

A platform gives up on a tap after three seconds, a runtime on a request after five. What is recorded after that has
happened behind their backs: so a wait for the database's locks ends before, and a transaction that is late is rolled
back instead of committed. Both database backends of ours ask here; without a deadline (commands, workers) they wait as
the settings say.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from django.db import OperationalError

# Seconds that a wait may last all the same where being late does no harm.
LEAST = 0.5
# Seconds that a single statement outside of transactions waits for locks, in a process that serves people and runtimes.
SINGLE = 2.0


class OutOfTime(OperationalError):
    """The time of whoever waits is over before the transaction could begin, or be committed; nothing was changed."""


@dataclass
class Deadline:
    """``at`` is on the monotonic clock. A ``strict`` one forbids that anything takes effect after it."""

    at: float
    strict: bool
    began: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Seconds that a wait may last now. Raises :class:`OutOfTime` when it is over and strict."""
        seconds = self.at - time.monotonic()
        if seconds > 0:
            return seconds if self.strict else max(seconds, LEAST)
        if self.strict:
            raise OutOfTime("whoever waits for this has gone")
        return LEAST


_serving = False
_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def within(seconds: float, *, strict: bool) -> Iterator[None]:
    """Bound what the block waits for; an outer deadline that ends sooner stays."""
    outer = _current.get()
    inner = Deadline(time.monotonic() + seconds, strict)
    token = _current.set(outer if outer is not None and outer.at <= inner.at else inner)
    try:
        yield
    finally:
        _current.reset(token)


def serve() -> None:
    """This process answers people and runtimes, and keeps nobody waiting for a lock, whatever asks for it."""
    global _serving
    _serving = True


def serving() -> bool:
    """Whether :func:`serve` was called."""
    return _serving


def current() -> Deadline | None:
    """The deadline of what runs now."""
    return _current.get()


def check() -> None:
    """A transaction is about to be committed. Raises :class:`OutOfTime` when it is too late for that."""
    deadline = _current.get()
    if deadline is not None and deadline.strict:
        deadline.left()


def kept() -> None:
    """A transaction was committed in time: what the same request writes after it may be late, as it stands already."""
    deadline = _current.get()
    if deadline is not None:
        deadline.strict = False
