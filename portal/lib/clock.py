"""The one clock of the portal.

Everything that compares or stores a time asks here, so that a test can set it. Times are aware datetimes in UTC.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import overload

Source = Callable[[], datetime]


def _system() -> datetime:
    return datetime.now(UTC)


_source: Source = _system


def now() -> datetime:
    """Return the current time as an aware datetime in UTC."""
    return _source()


@overload
def rfc3339(value: datetime) -> str: ...


@overload
def rfc3339(value: None) -> None: ...


@overload
def rfc3339(value: datetime | None) -> str | None: ...


def rfc3339(value: datetime | None) -> str | None:
    """Format a time as RFC 3339 in UTC with milliseconds and a final ``Z``; ``None`` stays ``None``."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def set_to(moment: datetime | Source) -> Iterator[None]:
    """Replace the clock for the length of the block: a fixed time, or a function that returns one."""
    global _source
    before = _source
    _source = moment if callable(moment) else lambda: moment
    try:
        yield
    finally:
        _source = before


@contextmanager
def shifted(by: timedelta) -> Iterator[None]:
    """Let the clock run, but ``by`` ahead of (or behind) the time it would show."""
    before = _source
    with set_to(lambda: before() + by):
        yield
