"""``GET /confirmations/{id}?wait=N``."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from hooks_app import confirmations, keys
from hooks_app.live import waiting as lasting
from hooks_app.models import ConfirmationRequest, RuntimeKey
from portal import audit
from portal.people import tokens
from portal.serving.threads import threads
from portal.wakeups import wakeups
from tests.machinery.live import Portal, open_wait, read_all, until

Make = Callable[..., ConfirmationRequest]


def path(row: ConfirmationRequest, wait: Any = 30) -> str:
    return f"/api/v1/confirmations/{row.pk}?wait={wait}"


def cancel(row: ConfirmationRequest) -> float:
    """End the request in another thread; returns the time of the commit."""
    at: list[float] = []

    def work() -> None:
        from django.db import connections

        confirmations.cancel(request=row, actor=audit.SHELL)
        at.append(time.monotonic())
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    return at[0]


def test_a_change_in_another_thread_answers_within_100_ms(portal: Portal, world: Any, pending: Make) -> None:
    took = []
    for _ in range(5):  # the machine may be busy with something else once or twice
        row = pending()
        with portal.waiting(path(row), world.key) as waiting:
            assert not waiting.done
            committed = cancel(row)
            answer = waiting.result()
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
        took.append(waiting.at - committed)
    assert min(took) < 0.1, took


def test_the_answer_has_the_bytes_of_one_that_did_not_wait(portal: Portal, world: Any, pending: Make) -> None:
    row = pending()
    plain = portal.get(f"/api/v1/confirmations/{row.pk}", world.key)
    started = time.monotonic()
    waited = portal.get(path(row, 1), world.key)
    assert 0.9 < time.monotonic() - started < 5
    assert waited.json()["status"] == "pending"
    assert waited.content == plain.content
    assert waited.headers["Content-Type"] == plain.headers["Content-Type"]


def test_what_has_ended_is_answered_at_once(portal: Portal, world: Any, pending: Make) -> None:
    row = pending()
    confirmations.cancel(request=row, actor=audit.SHELL)
    started = time.monotonic()
    assert portal.get(path(row), world.key).json()["status"] == "cancelled"
    assert time.monotonic() - started < 5


def test_a_deadline_ends_the_wait_and_reads_expired(portal: Portal, world: Any, pending: Make) -> None:
    row = pending(seconds=1.5)
    started = time.monotonic()
    answer = portal.get(path(row), world.key)
    assert time.monotonic() - started < 5
    assert answer.json()["status"] == "expired"  # no sweep runs in this process


def test_a_wake_up_for_nothing_does_not_answer(portal: Portal, world: Any, pending: Make) -> None:
    row = pending()
    with portal.waiting(path(row), world.key) as waiting:
        for _ in range(3):
            wakeups.publish(f"confirmation:{row.pk}")
            portal.get("/healthz")  # the loop has come round
        assert not waiting.done
        cancel(row)
        assert waiting.result().json()["status"] == "cancelled"


@pytest.mark.parametrize("wait", ["61", "-1", "abc", "", "1.5", "1&wait=2"])
def test_a_bad_wait_is_named(portal: Portal, world: Any, pending: Make, wait: str) -> None:
    answer = portal.get(path(pending(), wait), world.key)
    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "invalid"
    assert answer.json()["errors"][0]["path"] == "wait"


def test_refusals_are_those_of_the_api(portal: Portal, world: Any, pending: Make) -> None:
    row = pending()
    scoped = keys.issue(organization=world.acme, scopes=["registry"], actor=audit.SHELL)[1]
    unknown = f"/api/v1/confirmations/{world.acme.pk}?wait=30"
    for key, at, status, code in [
        ("", path(row), 401, "unauthenticated"),
        ("hg_wrong", path(row), 401, "unauthenticated"),
        (world.other_key, path(row), 404, "not_found"),
        (world.their_key, path(row), 404, "not_found"),
        (world.key, unknown, 404, "not_found"),
        (scoped, path(row), 403, "scope_missing"),
    ]:
        answer = portal.get(at, key)
        assert (answer.status_code, answer.json()["code"]) == (status, code), at
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.content == portal.get(at.partition("?")[0], key).content


def test_a_person_with_a_session_may_wait(portal: Portal, world: Any, pending: Make, client: Client) -> None:
    client.force_login(world.bob, backend="django.contrib.auth.backends.ModelBackend")
    cookies = {"sessionid": client.cookies["sessionid"].value}
    answer = portal.get(path(pending(), 1), cookies=cookies)
    assert (answer.status_code, answer.json()["status"]) == (200, "pending")


def test_a_key_that_is_revoked_meanwhile_learns_nothing(portal: Portal, world: Any, pending: Make) -> None:
    row = pending()
    with portal.waiting(path(row), world.key) as waiting:
        keys.revoke(RuntimeKey.objects.get(agent=world.agent), actor=audit.SHELL)
        cancel(row)
        assert waiting.result().status_code == 401


def test_a_client_that_goes_away_is_forgotten(portal: Portal, world: Any, pending: Make) -> None:
    connection = open_wait(portal.url, path(pending()), world.key)
    until(lambda: wakeups.waiting() == 1, what="the subscription")
    connection.close()
    until(lambda: wakeups.waiting() == 0, what="the end of the subscription")


def test_waits_and_streams_of_one_caller_are_counted_together(
    portal: Portal, world: Any, pending: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting.application, "_quota", lasting.StreamQuota(2))
    row, done = pending(), pending()
    confirmations.cancel(request=done, actor=audit.SHELL)
    events = f"/api/v1/agents/{world.agent.slug}/events"
    with portal.events(events, world.key) as stream:
        assert stream.frame() == ["retry: 2000"]
        with portal.waiting(path(row), world.key) as held:
            until(lambda: sum(lasting.application._quota._taken.values()) == 2, what="the wait's place")
            for refused in (portal.get(path(row, 5), world.key), portal.get(events, world.key)):
                assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
                assert int(refused.headers["Retry-After"]) > 0
            # Nobody waits for what has ended, or without `wait`; others have places of their own.
            assert portal.get(path(done), world.key).status_code == 200
            assert portal.get(f"/api/v1/confirmations/{row.pk}", world.key).status_code == 200
            person = tokens.issue(user=world.bob, scopes=("read",), actor=audit.SHELL)[1]
            assert portal.get(path(row, 1), person).status_code == 200
            cancel(row)
            assert held.result().json()["status"] == "cancelled"
        # Its place is free again.
        assert portal.get(path(pending(), 1), world.key).status_code == 200
    until(lambda: not lasting.application._quota._taken, what="the end of the stream")


def test_hundreds_wait_on_few_threads_and_connections(portal: Portal, world: Any, pending: Make) -> None:
    rows = [pending() for _ in range(300)]
    before = threading.active_count()
    files = len(os.listdir("/dev/fd"))
    connections = [open_wait(portal.url, path(row, 60), world.key) for row in rows]
    until(lambda: wakeups.waiting() == 300, seconds=60, what="300 subscriptions")
    until(lambda: not threads().waiting(), seconds=60, what="the end of the first reads")
    assert threading.active_count() - before <= settings.THREADS
    # Both ends of 300 sockets, and few more: no database connection each.
    assert len(os.listdir("/dev/fd")) - files <= 600 + 4 * settings.THREADS
    ConfirmationRequest.objects.filter(pk__in=[row.pk for row in rows]).update(
        status="cancelled", ended_at=rows[0].created_at
    )
    wakeups.publish(*(f"confirmation:{row.pk}" for row in rows))
    answers = [read_all(connection) for connection in connections]
    assert all(b'"status":"cancelled"' in answer.replace(b" ", b"") for answer in answers)
    until(lambda: wakeups.waiting() == 0, what="the end of the subscriptions")
