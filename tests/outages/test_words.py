"""What a server says is an outage as much as its silence: each thing that it says, and what clients are told."""

import pytest
from django.db import InternalError, OperationalError, ProgrammingError
from psycopg import errors

from portal.observe import outages

SAID = {
    "25006": "database_read_only",  # a standby, or default_transaction_read_only
    "53100": "storage_full",
    "53200": "database_unavailable",  # out of memory
    "53300": "overloaded",  # too many connections
    "57P01": "database_unavailable",  # shut down by an administrator
    "57P02": "database_unavailable",  # another process has crashed
    "57P03": "database_unavailable",  # starting, stopping or recovering
    "57P04": "database_unavailable",  # the database was dropped
    "57P05": "database_unavailable",  # idle for too long
    "58030": "database_unavailable",  # the disk fails
    "08006": "database_unavailable",
    "55P03": "database_busy",  # a lock that was not to be had in time
    "57014": "database_busy",  # a statement that took too long
    "25P03": "database_busy",  # a transaction that took too long
    "40001": "database_busy",
    "40P01": "database_busy",
}


def said(state: str) -> BaseException:
    """What Django raises for a SQLSTATE."""
    cause = errors.lookup(state)("the server's words")
    kind = InternalError if isinstance(cause, errors.InternalError) else OperationalError
    error = kind("the server's words")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(("state", "code"), SAID.items())
def test_what_postgresql_says_is_an_outage(state: str, code: str) -> None:
    problem = outages.explain(said(state))
    assert problem is not None
    assert problem.code == code
    assert problem.status == (507 if code == "storage_full" else 503)
    assert problem.retry_after


@pytest.mark.parametrize("state", ["42P01", "42703", "25P02", "XX001"])
def test_our_own_mistakes_are_none(state: str) -> None:
    cause = errors.lookup(state)("words")
    error = ProgrammingError("words") if state.startswith("42") else InternalError("words")
    error.__cause__ = cause
    assert outages.explain(error) is None
