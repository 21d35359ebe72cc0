"""Somebody else holds the database: whoever waits is told in time that nothing was recorded, and that stays true."""

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client

from channels_app.models import Interaction
from hooks_app.models import ConfirmationRequest, Decision
from portal.lib import deadline
from portal.lib.deadline import OutOfTime
from portal.models import Organization
from portal.serving import lanes
from tests import make
from tests.confirmations import world as worlds
from tests.confirmations.world import ARGS, World, state
from tests.races import doors

pytestmark = pytest.mark.django_db(transaction=True)
# Seconds: the patience of these tests, and what a busy machine may add to it.
SHORT = 0.4
PASSWORD = "a long pass phrase"
SLACK = 2.0
LOCKED = "hooks_app_confirmationrequest, hooks_app_agent, channels_app_interaction, django_session"


@pytest.fixture
def world(transactional_db: None) -> World:
    built = worlds.build()
    built.bind(built.bob, "ou_bob")
    return built


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    table = tuple(lanes.Patience(one.prefix, SHORT, one.strict) for one in lanes.TABLE)
    monkeypatch.setattr(lanes, "TABLE", table)


@contextmanager
def held() -> Iterator[None]:
    """Another program holds SQLite's write lock; on PostgreSQL a transaction holds the tables against every writer."""
    if connection.vendor == "sqlite":
        other = sqlite3.connect(str(connection.settings_dict["NAME"]), isolation_level=None, uri=True)
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")
            other.close()
        return
    parameters = connection.get_connection_params()
    with psycopg.connect(**{**parameters, "autocommit": False}) as holder:
        holder.execute(f"LOCK TABLE {LOCKED} IN EXCLUSIVE MODE")
        try:
            yield
        finally:
            holder.rollback()


def timed(work: Callable[[], Any]) -> Any:
    """The answer, which has to come in time."""
    began = time.monotonic()
    answer = work()
    assert time.monotonic() - began < SHORT + SLACK
    return answer


@pytest.mark.usefixtures("_impatient")
def test_a_tap_is_recorded_or_says_that_it_is_not(world: World) -> None:
    row = world.ask()
    card = doors.sent(row)
    tap = doors.tap(card, "ou_bob", "approve")
    with held():
        answer = timed(tap)
    assert (answer.status, answer.accepted) == (200, False)
    assert "nothing was recorded. Tap again" in answer.body["toast"]["content"]
    assert (state(row), Decision.objects.count(), Interaction.objects.count()) == ("pending", 0, 0)
    again = tap()
    assert (again.body["toast"]["type"], state(row)) == ("success", "approved")


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("call", ["create", "respond", "consume", "cancel", "outcome"])
def test_a_call_that_is_refused_changes_nothing_later(world: World, call: str) -> None:
    row, used = world.ask(), world.ask()
    attempt = uuid.uuid4()
    runtime, bob = doors.runtime(world), doors.person(world.bob)
    world.approve(used, world.carol)
    if call == "outcome":
        assert runtime.consume(used, attempt).status == 200
    body = {
        "agent": world.agent.slug,
        "conversation_id": "c8",
        "tool_call_id": "call_held",
        "tool_name": "oa__purchase_pay",
        "tool_args": ARGS,
        "hook": "approval_gate",
        "registry_digest": world.digest(),
        "initiator": {"id": "u42"},
    }
    work: dict[str, Callable[[], Any]] = {
        "create": lambda: runtime.post("/confirmations", body),
        "respond": lambda: bob.respond(row, "approve"),
        "consume": lambda: runtime.consume(used, attempt),
        "cancel": lambda: runtime.post(f"/confirmations/{row.pk}/cancel"),
        "outcome": lambda: runtime.post(f"/confirmations/{used.pk}/outcome", {"status": "succeeded"}),
    }
    before = list(ConfirmationRequest.objects.order_by("pk").values())
    with held():
        answer = timed(work[call])
    assert (answer.status, answer.body["code"]) == (503, "database_busy")
    assert list(ConfirmationRequest.objects.order_by("pk").values()) == before
    assert work[call]().status in (200, 201)


@pytest.mark.usefixtures("_impatient")
def test_people_are_told_on_a_page(world: World) -> None:
    row = world.ask()
    browser = Client(raise_request_exception=False, headers={"Accept": "text/html"})
    browser.force_login(world.bob, backend="django.contrib.auth.backends.ModelBackend")
    with held():
        page = timed(lambda: browser.post(f"/inbox/{row.pk}/", {"decision": "approve"}))
    assert page.status_code == 503
    assert "nothing was changed. Try again." in page.content.decode()
    assert state(row) == "pending"
    world.bob.set_password(PASSWORD)
    world.bob.save()
    stranger = Client(raise_request_exception=False, headers={"Accept": "text/html"})
    with held():
        page = timed(lambda: stranger.post("/login/", {"username": "bob", "password": PASSWORD}))
    assert page.status_code == 503


def test_readiness_is_told_in_time(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("another transaction's locks keep nobody from writing elsewhere")
    with held():
        began = time.monotonic()
        answer = Client().get("/readyz")
        assert time.monotonic() - began < lanes.patience("/readyz").seconds + SLACK
    found = answer.json()["checks"]["database"]
    assert (answer.status_code, found["ok"]) == (503, False)
    assert "held by somebody else" in found["detail"]


def slowly(slug: str) -> None:
    """Make an organization in a transaction that takes its time."""
    with transaction.atomic():
        make.organization(slug)
        time.sleep(0.1)


def test_what_is_late_is_not_committed(transactional_db: None) -> None:
    with deadline.within(0.05, strict=True):
        with pytest.raises(OutOfTime):
            slowly("late")
        with pytest.raises(OutOfTime):
            slowly("later")
    assert not Organization.objects.exists()
    slowly("free")  # the connection is none the worse
    assert Organization.objects.get().slug == "free"


def test_what_follows_a_commit_in_time_may_be_late(transactional_db: None) -> None:
    with deadline.within(0.3, strict=True):
        slowly("first")
        time.sleep(0.3)
        slowly("second")
    assert Organization.objects.count() == 2


def test_waits_for_several_locks_have_one_time(world: World) -> None:
    """Two rows, held one after the other: the second wait has what the first has left."""
    if connection.vendor == "sqlite":
        pytest.skip("there is one lock")
    row = world.ask()

    def work() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.5)")
            ConfirmationRequest.objects.select_for_update().get(pk=row.pk)

    with psycopg.connect(**{**connection.get_connection_params(), "autocommit": False}) as other:
        other.execute("SELECT 1 FROM hooks_app_confirmationrequest WHERE id = %s FOR UPDATE", [row.pk])
        began = time.monotonic()
        with deadline.within(0.8, strict=True), pytest.raises(OperationalError, match="timeout"):
            work()
        assert 0.7 < time.monotonic() - began < 1.2


def test_single_statements_of_a_web_process_wait_briefly(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("each statement is told the time that is left")
    monkeypatch.setattr(deadline, "_serving", True)
    backend: Any = connection
    with backend.get_new_connection(backend.get_connection_params()) as fresh:
        assert fresh.execute("SHOW lock_timeout").fetchone() == ("2s",)


@pytest.mark.parametrize("path", ["/channels/acme/ops-feishu/callback", "/channels/x"])
def test_a_platform_waits_for_three_seconds(path: str) -> None:
    assert lanes.patience(path).strict
    assert lanes.patience(path).seconds <= 2
    assert lanes.patience("/api/v1/confirmations").seconds < 5
