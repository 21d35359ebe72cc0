"""Whose tool is running here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Acting:
    """The call whose tool is running: of which session, by what the portal knows it, and for which approved request,
    on whose behalf the tool's delegates ask."""

    session_id: str
    key: str
    request_id: str | None


_acting: ContextVar[Acting | None] = ContextVar("hookgate_acting", default=None)


def current() -> Acting | None:
    """The innermost call whose tool is running here."""
    return _acting.get()


@contextmanager
def acting(call: Acting | None) -> Iterator[None]:
    """Run something as a part of a call's tool."""
    token = _acting.set(call)
    try:
        yield
    finally:
        _acting.reset(token)
