"""The embedded database's disk is full, its file may only be read, or somebody else holds it."""

import os
import resource
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client

from channels_app.models import Delivery
from hooks_app.models import ConfirmationRequest
from portal.models import AuditEvent
from tests import make
from tests.outages import scene as scenes
from tests.outages.scene import Scene, until
from tests.soak import counts

pytestmark = pytest.mark.django_db(transaction=True)


class Office:
    """An agent with a channel, and a runtime that asks."""

    def __init__(self) -> None:
        acme = make.organization("acme")
        make.user("bob", acme)
        make.connector(acme, purchase_pay={"requires_confirmation": True})
        self.agent = make.agent(acme)
        make.approval_channel(self.agent, make.channel(acme))
        make.publish(self.agent)
        self.key = make.key(acme, self.agent)
        self.client = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {self.key}"})
        self.digest = ""
        self._number = 0

    def get(self, path: str) -> Any:
        """GET of the API."""
        return self.client.get(f"/api/v1{path}")

    def ask(self) -> Any:
        """One more request for confirmation, with rather large arguments."""
        self._number += 1
        digest = self.digest or self.get("/agents/procurement/registry").json()["digest"]
        self.digest = digest
        body = {
            "agent": "procurement",
            "conversation_id": "c7",
            "tool_call_id": f"call_{self._number}",
            "tool_name": "oa__purchase_pay",
            "tool_args": {"amount": self._number, "note": "x" * 20000},
            "hook": "approval_gate",
            "registry_digest": digest,
            "initiator": {"id": "u42", "name": "Kim", "email": "kim@acme.test"},
        }
        return self.client.post("/api/v1/confirmations", body, content_type="application/json")


@pytest.fixture
def office() -> Office:
    return Office()


@contextmanager
def pragma(name: str, value: str, back: str) -> Iterator[None]:
    """A setting of the present connection, for the length of the block."""
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA {name}={value}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA {name}={back}")


def pages() -> int:
    """How many pages the database has."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA page_count")
        return int(cursor.fetchone()[0])


def check_whole() -> int:
    """The database is sound, and every request has its delivery and its audit event. Returns how many there are."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA integrity_check")
        assert cursor.fetchall() == [("ok",)]
    asked = {str(pk) for pk in ConfirmationRequest.objects.values_list("pk", flat=True)}
    topics = Delivery.objects.filter(topic__startswith="confirmation:").values_list("topic", flat=True)
    events = AuditEvent.objects.filter(action="confirmation.created").values_list("object_id", flat=True)
    assert {topic.removeprefix("confirmation:") for topic in topics} == asked
    assert {str(event) for event in events} == asked
    return len(asked)


def check_problem(answer: Any, status: int, code: str) -> None:
    """A problem document that says when to try again."""
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
    assert answer["Content-Type"] == "application/problem+json"
    assert int(answer["Retry-After"]) >= 1


def test_a_full_disk_is_said_once_and_leaves_nothing_half_done(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    office.ask()
    with pragma("max_page_count", str(pages() + 12), "1073741823"):
        answers = [office.ask() for _ in range(12)]
        refused = [answer for answer in answers if answer.status_code != 201]
        assert refused
        for answer in refused:
            check_problem(answer, 507, "storage_full")
            assert "Free space" in answer.json()["detail"]
        assert office.get("/agents/procurement/registry").status_code == 200  # what only reads still works
    told = [record for record in caplog.records if "database.failed" in str(record.msg)]
    assert len(told) == 1
    taken = sum(answer.status_code == 201 for answer in answers)
    assert check_whole() == taken + 1
    assert office.ask().status_code == 201
    assert check_whole() == taken + 2


def test_a_database_that_may_only_be_read(office: Office) -> None:
    office.ask()
    with pragma("query_only", "1", "0"):
        check_problem(office.ask(), 503, "database_read_only")
        assert office.get("/confirmations").status_code == 200
    assert office.ask().status_code == 201
    assert check_whole() == 2


def test_a_defect_of_ours_is_no_outage(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **options: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")

    monkeypatch.setattr("hooks_app.confirmations.create", broken)
    answer = office.ask()
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")


def test_pages_for_people_say_it_too(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*args: Any, **options: Any) -> None:
        error = OperationalError("unable to open database file")
        cause = sqlite3.OperationalError("unable to open database file")
        cause.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        raise error from cause

    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", away)
    browser = Client(raise_request_exception=False, headers={"Accept": "text/html"})
    browser.cookies["sessionid"] = "x" * 32
    page = browser.get("/inbox/")
    assert (page.status_code, page["Retry-After"]) == (503, "2")
    assert "can&#x27;t be reached" in page.content.decode()
    browser.cookies["sessionid"] = "x" * 32
    answer = browser.post("/channels/acme/ops-feishu/callback", b"{}", content_type="application/json")
    assert answer.status_code != 500


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root; the limit below does without")
@counts.LONG
def test_a_real_disk_that_is_full(tmp_path: Path) -> None:
    with _disk(tmp_path / "disk", megabytes=16) as disk, scenes.embedded(disk) as scene:
        _fill_and_free(scene, disk, lambda: _stuff(disk), lambda: (disk / "stuffing").unlink())


@counts.LONG
def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    with scenes.embedded(tmp_path) as scene:
        pid = scene.portal.processes[0].pid
        free = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        size = (tmp_path / "hookgate.sqlite3").stat().st_size
        _fill_and_free(
            scene,
            tmp_path,
            lambda: resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, free[1])),
            lambda: resource.prlimit(pid, resource.RLIMIT_FSIZE, free),
        )


def _fill_and_free(scene: Scene, folder: Path, fill: Any, free: Any) -> None:
    before = [scene.ask().json()["id"] for _ in range(3)]
    waits = [scene.wait(id) for id in before]
    until(lambda: scene.waiting() >= len(waits), seconds=10, what="the waits")
    fill()
    answers = [scene.ask() for _ in range(40)]
    refused = [answer for answer in answers if answer.status_code != 201]
    assert refused
    codes = {(answer.status_code, answer.json()["code"]) for answer in refused}
    assert codes <= {(507, "storage_full"), (503, "database_unavailable")}
    ran = len(scene.runs)
    assert scene.run_tool(impatient=True).result(60).blocked
    assert len(scene.runs) == ran
    assert scene.portal.processes[0].poll() is None
    free()
    until(lambda: scene.ask().status_code == 201, seconds=30, what="going on")
    for id in before:
        assert scene.decide(id).json()["status"] == "approved"
    assert {future.result(30)[0] for future in waits} == {"approved"}
    ids = [answer.json()["id"] for answer in answers if answer.status_code == 201]
    until(lambda: all(scene.cards(id) == 1 for id in ids), seconds=60, what="the cards")
    log = scene.portal.log.read_text(errors="replace")
    with sqlite3.connect(folder / "hookgate.sqlite3") as database:
        sound = database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        lone = database.execute(
            "SELECT count(*) FROM hooks_app_confirmationrequest r WHERE NOT EXISTS (SELECT 1 FROM"
            " channels_app_delivery d WHERE replace(d.topic, '-', '') = 'confirmation:' || r.id)"
        ).fetchone()[0]
    counts.record(
        "disk full",
        rounds=len(answers),
        faults={"unsound": int(not sound), "requests without a delivery": lone},
        database="sqlite",
        refused=len(refused),
        log_lines=log.count("database.failed"),
    )


@contextmanager
def _disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "hookgate-test", str(folder)], check=True
    )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _stuff(disk: Path) -> None:
    """Take whatever space is left."""
    with (disk / "stuffing").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 65536)
