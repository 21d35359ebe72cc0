"""The threads that answer: one hop for a request, none made for it; all of them in use is overload, and no outage."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest
from django.db import OperationalError, connections
from django.test import RequestFactory

from portal import audit, health
from portal.models import AuditEvent
from portal.serving.lanes import Lane, lane, lanes
from portal.serving.threads import Full, Threads, threads
from portal.wakeups import wakeups
from portal.web import failures
from tests.machinery.live import Portal, open_wait, read_until, until

TOO_MANY = "FATAL: sorry, too many clients already"


class TooMany(psycopg.OperationalError):
    """What the server says when it takes no more connections."""

    sqlstate = "53300"


def overloaded() -> OperationalError:
    error = OperationalError(TOO_MANY)
    error.__cause__ = TooMany(TOO_MANY)
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
    assert "every connection that the database allows is in use" in answer.content.decode()


def test_health_says_so() -> None:
    def check() -> health.Health:
        raise overloaded()

    found = health.run("database", check)
    assert not found.ok
    assert found.detail.startswith("overloaded: ")


@contextmanager
def taken(lane: Lane) -> Iterator[None]:
    """Every thread that the lane may have, in use."""
    go = threading.Event()
    busy = threading.Semaphore(0)

    def hold() -> None:
        busy.release()
        go.wait(20)

    held = [threads().submit(lane, hold) for _ in range(lane.threads)]
    try:
        for _ in held:
            assert busy.acquire(timeout=10)
        yield
    finally:
        go.set()
        for one in held:
            one.result(10)


WRITE = "/api/v1/agents/procurement/tools"


def test_a_full_pool_refuses_and_lets_those_who_wait_live_on(
    portal: Portal, world: Any, pending: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooks_app.live.waiting.HEARTBEAT", 0.5)
    monkeypatch.setattr("hooks_app.live.waiting.LOOK_SECONDS", 0.3)
    row = pending()
    with (
        portal.waiting(f"/api/v1/confirmations/{row.pk}?wait=8", world.key) as wait,
        open_wait(portal.url, "/api/v1/agents/procurement/events", world.key) as stream,
    ):
        read_until(stream, b"event: state")
        with taken(lanes().looks):  # all of them
            answers = [
                httpx.get(f"{portal.url}{path}", headers={"Accept": "text/html"}, timeout=10)
                for path in ("/api/v1/agents", "/login/")
            ]
            for answer, kind in zip(answers, ("problem+json", "text/html"), strict=True):
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
                assert kind in answer.headers["Content-Type"]
                assert "More is asked of the portal than it can do at once" in answer.text
            stream.settimeout(5)
            read_until(stream, b": quiet")
            assert not wait.done
        row.status = "cancelled"
        row.ended_at = row.created_at
        row.save()
        wakeups.publish(f"confirmation:{row.pk}")
        assert wait.result().json()["status"] == "cancelled"


def test_writers_that_are_held_up_leave_readers_and_lookers_their_threads(portal: Portal, world: Any) -> None:
    with ThreadPoolExecutor(1) as pool, taken(lanes().writes):
        headers = {"Authorization": f"Bearer {world.key}"}
        read = httpx.get(f"{portal.url}/api/v1/agents/procurement/registry", headers=headers, timeout=10)
        assert read.status_code == 200
        assert httpx.get(f"{portal.url}/readyz", timeout=10).status_code in {200, 503}
        url = f"{portal.url}{WRITE}"
        late = pool.submit(httpx.put, url, headers=headers, json={"tools": []}, timeout=10)
        until(lambda: threads().waiting() == 1, what="a writer that waits")
    assert late.result().status_code == 204  # it waited, and went on


def test_of_what_waits_the_most_pressing_is_next() -> None:
    one = Threads(1)
    writes, taps, reads = (Lane(name, 1, rank) for name, rank in (("writes", 3), ("taps", 1), ("reads", 2)))
    go, order = threading.Event(), list[str]()
    held = one.submit(writes, partial(go.wait, 20))
    until(lambda: one.waiting() == 0, what="the first one's begin")
    late = [one.submit(kind, partial(order.append, kind.name)) for kind in (writes, reads, taps, reads, taps)]
    go.set()
    assert held.result(10)
    for job in late:
        job.result(10)
    assert order == ["taps", "taps", "reads", "reads", "writes"]
    assert lane("POST", "/channels/acme/ops/callback") is lanes().taps
    assert lane("POST", "/api/v1/confirmations") is lanes().writes
    ranks = [kind.rank for kind in vars(lanes()).values()]
    assert ranks == sorted(set(ranks))


def test_a_tap_is_answered_while_writers_hold_their_threads(portal: Portal, world: Any) -> None:
    with taken(lanes().writes):
        answer = httpx.post(f"{portal.url}/channels/acme/nowhere/callback", json={}, timeout=10)
        assert answer.status_code == 404


def test_a_lane_that_is_full_refuses_at_once_and_takes_back_what_has_not_begun() -> None:
    small, lane = Threads(2), Lane("small", 1, waiting=1)
    go, ran = threading.Event(), list[str]()
    first = small.submit(lane, lambda: go.wait(10))
    until(lambda: not small.waiting(), what="the first")

    async def ask() -> None:
        await small.run(lane, lambda: ran.append("late"), seconds=0.05)

    with pytest.raises(Full):
        asyncio.run(ask())
    assert not small.waiting()
    second = small.submit(lane, lambda: ran.append("second"))
    with pytest.raises(Full):
        small.submit(lane, lambda: ran.append("third"))
    go.set()
    assert first.result(10)
    second.result(10)
    assert ran == ["second"]


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lanes of all work that is handed to a thread."""
    seen: list[str] = []
    submit = Threads.submit

    def noted(self: Threads, lane: Lane, work: Any) -> Any:
        seen.append(lane.name)
        return submit(self, lane, work)

    monkeypatch.setattr(Threads, "submit", noted)
    return seen


def test_each_request_is_one_hop_and_makes_no_thread(
    portal: Portal, world: Any, pending: Any, hops: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bearer = {"Authorization": f"Bearer {world.key}"}
    registry = "/api/v1/agents/procurement/registry"
    with httpx.Client(base_url=portal.url, timeout=10) as client:
        tag = client.get(registry, headers=bearer).headers["ETag"]
        requests = [
            ("GET", "/healthz", {}, "looks"),
            ("GET", "/login/", {}, "reads"),
            ("GET", registry, bearer, "reads"),
            ("GET", registry, {**bearer, "If-None-Match": tag}, "reads"),
            ("GET", registry, {**bearer, "If-None-Match": '"other"'}, "reads"),
            ("GET", f"/api/v1/confirmations/{pending().pk}", bearer, "reads"),
            ("PUT", WRITE, bearer, "writes"),
            ("GET", "/nowhere", {}, "reads"),
        ]
        for warming in range(2):
            for method, path, headers, lane in requests:
                hops.clear()
                if warming == 1:
                    monkeypatch.setattr(threading.Thread, "start", _no_thread)
                body = {"tools": list[Any]()} if method == "PUT" else None
                answer = client.request(method, path, headers=headers, json=body)
                assert answer.status_code in {200, 204, 302, 304, 404}, answer.text
                assert hops == [lane], (method, path)


def _no_thread(self: threading.Thread) -> None:
    raise AssertionError(f"{self.name} was made for a request")


def test_a_client_that_leaves_in_the_middle_changes_nothing_of_what_is_done(
    portal: Portal, world: Any, pending: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction comes to its end, and its thread answers the next."""
    go, begun = threading.Event(), threading.Event()
    append = audit.append_all

    def slow(*args: Any, **more: Any) -> Any:
        begun.set()
        go.wait(10)
        return append(*args, **more)

    monkeypatch.setattr(audit, "append_all", slow)
    row = pending()
    host, _, port = portal.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            f"POST /api/v1/confirmations/{row.pk}/cancel HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {world.key}\r\nContent-Length: 0\r\n\r\n".encode()
        )
        assert begun.wait(10)
    go.set()
    path = f"/api/v1/confirmations/{row.pk}"
    until(lambda: portal.get(path, world.key).json()["status"] == "cancelled", what="the transaction's end")
    assert AuditEvent.objects.filter(action="confirmation.cancelled").count() == 1


@pytest.mark.postgres  # SQLite kills nobody's connection
def test_a_connection_that_the_database_has_killed_costs_nobody_an_answer(portal: Portal, world: Any) -> None:
    def ask(_: int) -> int:
        return portal.get("/api/v1/agents/procurement/registry", world.key).status_code

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(ask, range(32))) == {200}  # every thread has one
        parameters = connections["default"].get_connection_params()
        connections.close_all()
        with psycopg.connect(**{**parameters, "autocommit": True}) as other:
            killed = other.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchone()
        assert killed is not None
        assert killed[0] > 1
        assert set(pool.map(ask, range(32))) == {200}
