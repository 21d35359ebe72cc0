"""A pool that is all in use is overload, and no outage: nothing is wrong with the database."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import environ
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError
from django.db.utils import ConnectionHandler
from django.test import RequestFactory

from portal import health, outages
from portal.web import failures
from tests import services

Connect = Callable[..., Any]


@pytest.fixture
def connections(db: None) -> Iterator[Connect]:
    """Makes connections of one small pool; ``port`` is another server's."""
    made: list[Any] = []

    def make(port: int | None = None) -> Any:
        settings = environ.Env.db_url_config(services.postgres_url())
        settings |= {"ENGINE": "portal.postgresql"}
        where = {"host": "127.0.0.1", "port": port} if port else settings["OPTIONS"]
        settings["OPTIONS"] = {
            **where,
            "pool": {"min_size": 2, "max_size": 2, "timeout": 0.4, "reconnect_timeout": 0.2},
            "connect_timeout": 1,
        }
        # The pools are told apart by the alias.
        handler = ConnectionHandler({"default": settings, f"pool-{port}": settings})
        made.append(handler.create_connection(f"pool-{port}"))
        return made[-1]

    yield make
    for connection in made:
        connection.close()
        try:
            connection.close_pool()
        except ImproperlyConfigured:
            continue


def test_a_full_pool_is_overload_until_somebody_gives_back(connections: Connect) -> None:
    first, second, third = connections(), connections(), connections()
    first.pool.open(wait=True, timeout=20)
    first.connect()
    second.connect()
    with pytest.raises(OperationalError) as refused, third.wrap_database_errors:
        third.connect()
    problem = outages.explain(refused.value)
    assert problem is not None
    assert (problem.status, problem.code, problem.retry_after) == (503, "overloaded", 2.0)
    first.close()
    third.connect()
    assert third.connection.execute("SELECT 1").fetchone() == (1,)


def test_a_server_that_is_away_is_none(connections: Connect) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        away = connections(taken.getsockname()[1])
        with pytest.raises(OperationalError) as refused, away.wrap_database_errors:
            away.connect()
    problem = outages.explain(refused.value)
    assert problem is not None
    assert problem.code == "database_unavailable"


def overloaded() -> OperationalError:
    from portal.postgresql.base import PoolExhausted

    error = OperationalError("all 16 connections are in use")
    error.__cause__ = PoolExhausted("all 16 connections are in use")
    return error


@pytest.mark.parametrize(("path", "kind"), [("/api/v1/calls", "problem+json"), ("/inbox/", "text/html")])
def test_api_and_pages_say_so(path: str, kind: str) -> None:
    request = RequestFactory().get(path, headers={"Accept": "text/html"})
    try:
        raise overloaded()
    except OperationalError:
        answer = failures.failed(request)
    assert answer.status_code == 503
    assert kind in answer.headers["Content-Type"]
    assert answer.headers["Retry-After"] == "2"
    assert "can't be reached" not in answer.content.decode()
    assert "connection to its database is in use" in answer.content.decode()


def test_health_says_so() -> None:
    def check() -> health.Health:
        raise overloaded()

    found = health.run("database", check)
    assert not found.ok
    assert found.detail.startswith("overloaded: ")
