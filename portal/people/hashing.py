"""Hashing passwords, a few at a time: it is dear, and asked for before anybody is known."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from django.conf import settings
from django.contrib.auth.hashers import Argon2PasswordHasher, PBKDF2PasswordHasher
from django.db import connections
from django.utils.translation import gettext as _

from portal.lib.problems import Problem

# What else must hold when a turn has come, which may have taken seconds; see :func:`judged`.
_judge: ContextVar[Callable[[], None] | None] = ContextVar("judge", default=None)
_held = threading.local()


def busy(seconds: float) -> Problem:
    """503 ``overloaded``: too many passwords are being checked."""
    text = _("Too many people sign in at this moment; nothing was changed. Try again in a few seconds.")
    return Problem(503, "overloaded", text, retry_after=max(1.0, seconds))


class Queue:
    """At most ``at_once`` turns are taken; at most ``waiting`` threads wait for one, each at most ``seconds``."""

    def __init__(self, at_once: int, waiting: int, seconds: float) -> None:
        self._slots = threading.Semaphore(at_once)
        self._room = threading.BoundedSemaphore(at_once + waiting)
        self._seconds = seconds

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn. Raises 503 ``overloaded`` when the queue is full, or the wait too long."""
        if getattr(_held, "turn", False) or _in_transaction():
            # A turn within a turn; or a known person's change, which would keep others from writing while it waits.
            yield
            return
        if not self._room.acquire(blocking=False):
            raise busy(self._seconds)
        try:
            with self._slot():
                yield
        finally:
            self._room.release()

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if not self._slots.acquire(timeout=self._seconds):
            raise busy(self._seconds)
        _held.turn = True
        try:
            judge = _judge.get()
            if judge is not None:
                judge()
            yield
        finally:
            _held.turn = False
            self._slots.release()


@contextmanager
def judged(judge: Callable[[], None]) -> Iterator[None]:
    """Ask ``judge``, which may raise, right before each hash in the block as well: the wait may have taken seconds."""
    token = _judge.set(judge)
    try:
        yield
    finally:
        _judge.reset(token)


@cache
def queue() -> Queue:
    """The queue of this process."""
    return Queue(settings.HASHING_AT_ONCE, settings.HASHING_WAITING, settings.HASHING_WAIT_SECONDS)


def _in_transaction() -> bool:
    return any(connection.in_atomic_block for connection in connections.all(initialized_only=True))


class QueuedArgon2(Argon2PasswordHasher):
    """Argon2 in the queue."""

    def encode(self, password: str, salt: str) -> str:
        """The hash to store."""
        with queue().turn():
            return super().encode(password, salt)

    def verify(self, password: str, encoded: str) -> bool:
        """Whether the password is the one behind ``encoded``."""
        with queue().turn():
            return super().verify(password, encoded)


class QueuedPBKDF2(PBKDF2PasswordHasher):
    """PBKDF2, of hashes that come from elsewhere, in the queue."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        """The hash to store."""
        with queue().turn():
            return super().encode(password, salt, iterations)

    def verify(self, password: str, encoded: str) -> bool:
        """Whether the password is the one behind ``encoded``."""
        with queue().turn():
            return super().verify(password, encoded)
