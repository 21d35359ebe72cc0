"""Pooled connections that the server has closed are noticed before a request gets one, without asking the server.

A restart of the server leaves a pool full of dead connections. An idle connection has nothing to read, unless the
server has said good-bye: one system call tells, where the pool's own check costs a round trip per request.
"""

import select
from functools import partial
from typing import Any

import psycopg
from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's, with that check in its pool."""

    @property
    def pool(self) -> Any:
        """The pool of this process, ``None`` without one."""
        found: Any = super().pool
        # Django leaves no way to hand the pool a check of one's own.
        if found is not None and found._check is None:
            found._check = partial(refuse_dead, found)
        return found


def refuse_dead(pool: Any, connection: "psycopg.Connection[Any]") -> None:
    """Raise ``psycopg.OperationalError`` for a connection that the server has closed, and look through the others."""
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    if poller.poll(0):
        pool.check()
        raise psycopg.OperationalError("the server has closed the connection")
