"""``manage.py serve`` and ``listen`` as a person starts them."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from channels_app import channels
from hooks_app.models import ConfirmationRequest
from portal.lib import clock
from portal.serving import server
from tests import make, services
from tests.machinery.live import environment, open_wait, read_all, read_until, until

Make = Callable[..., ConfirmationRequest]


ADDRESS = re.compile(r"[(\"](http://127\.0\.0\.1:\d+)[)\"]")


class Served:
    """A ``serve`` process."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process = process
        self.url = url

    def end(self, number: int = signal.SIGTERM) -> float:
        """Send a signal; returns the seconds until it has ended."""
        started = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(15)
        return time.monotonic() - started


@contextmanager
def serving(*arguments: str, **variables: str) -> Iterator[Served]:
    """``serve`` on a free port and the present database, once it has said where."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve", "--port", "0", *arguments],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        # As JSON it says so in its log.
        stderr=subprocess.STDOUT if variables.get("HOOKGATE_LOG_FORMAT") == "json" else None,
        text=True,
        cwd=settings.BASE_DIR,
    )
    try:
        assert process.stdout is not None
        found = next(filter(None, map(ADDRESS.search, process.stdout)), None)
        assert found, "it ended without saying where it serves"
        until(lambda: _answers(found[1]), what="the first answer")
        yield Served(process, found[1])
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def run(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """``serve`` that is expected to refuse."""
    return subprocess.run(
        [sys.executable, "manage.py", "serve", *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        cwd=settings.BASE_DIR,
        timeout=60,
        check=False,
    )


def test_one_process_serves_delivers_and_expires(world: Any, pending: Make) -> None:
    overdue = pending()
    ConfirmationRequest.objects.filter(pk=overdue.pk).update(
        created_at=clock.now() - timedelta(minutes=2), expires_at=clock.now() - timedelta(minutes=1)
    )
    with serving(REDIS_URL="", HOOKGATE_SANDBOX="1") as served:
        assert "<html" in httpx.get(f"{served.url}/sandbox/").text
        until(
            lambda: ConfirmationRequest.objects.get(pk=overdue.pk).status == "expired",
            what="the scheduler's sweep",
        )
        until(lambda: httpx.get(f"{served.url}/readyz").status_code == 200, what="readiness")
        checks = httpx.get(f"{served.url}/readyz").json()["checks"]
        assert set(checks) == {"database", "broker", "wakeups", "deliveries", "agents"}
        assert checks["broker"] == {"ok": True, "detail": "embedded"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_seconds_although_people_wait(world: Any, pending: Make, number: int) -> None:
    with serving() as served:
        wait = open_wait(served.url, f"/api/v1/confirmations/{pending().pk}?wait=60", world.key)
        stream = open_wait(served.url, "/api/v1/agents/procurement/events", world.key)
        read_until(stream, b"event: state")
        until(lambda: "2 waiting" in httpx.get(f"{served.url}/readyz").text, what="two waiters")
        assert served.end(number) < 6
        assert served.process.returncode == 0
        with wait, stream:
            answer = read_all(wait).replace(b" ", b"")
            assert b'"status":"pending"' in answer  # an answer, not a broken line
            stream.settimeout(5)
            while stream.recv(65536):
                pass


def test_a_platform_that_does_not_answer_does_not_hold_up_the_end(world: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        channel = make.channel(world.acme, config={"base_url": f"http://{host}"})
        with serving(REDIS_URL="", HOOKGATE_CHANNEL_HOSTS=host) as served:
            delivery = channels.send_test(channel)[0]
            silent.settimeout(15)
            with silent.accept()[0]:  # the worker is talking to it, and waits
                assert served.end() < 6
                assert served.process.returncode == 0
        delivery.refresh_from_db()
        assert delivery.status != "sent"


def test_links_follow_the_address_that_is_served(world: Any, pending: Make) -> None:
    row = pending()
    key = {"Authorization": f"Bearer {world.key}"}
    environ = {"HOOKGATE_BASE_URL": "", "PORT": "8000"}
    with serving(**environ) as served:
        answer = httpx.get(f"{served.url}/api/v1/confirmations/{row.pk}", headers=key)
        assert answer.json()["url"] == f"{served.url}/inbox/{row.pk}/"
    with serving(HOOKGATE_BASE_URL="https://gate.acme.test") as served:
        answer = httpx.get(f"{served.url}/api/v1/confirmations/{row.pk}", headers=key)
        assert answer.json()["url"] == f"https://gate.acme.test/inbox/{row.pk}/"


def test_several_processes_wake_each_other_through_redis(world: Any, pending: Make) -> None:
    row = pending()
    key = {"Authorization": f"Bearer {world.key}"}
    with serving("--workers", "2", REDIS_URL=services.redis_url()) as served:
        with httpx.Client(base_url=served.url, headers=key, timeout=15) as other:
            waits = [
                open_wait(served.url, f"/api/v1/confirmations/{row.pk}?wait=30", world.key) for _ in range(8)
            ]
            # They may be at any point of their way: whatever they have seen, they hear the end.
            assert other.post(f"/api/v1/confirmations/{row.pk}/cancel", json={}).status_code == 200
            ended = time.monotonic()
            for wait in waits:
                with wait:
                    assert b'"cancelled"' in read_until(wait, b'"status"')
            assert time.monotonic() - ended < 5
        assert served.end() < 6
        assert served.process.returncode == 0


def test_a_killed_supervisor_leaves_no_process_behind_that_holds_the_port(transactional_db: None) -> None:
    with serving("--workers", "2", REDIS_URL=services.redis_url()) as served:
        port = int(served.url.rpartition(":")[2])
        served.end(signal.SIGKILL)

        def is_free() -> bool:
            try:
                server.bind("127.0.0.1", port).close()
            except server.PortTaken:
                return False
            return True

        until(is_free, what="the port's release")


def test_a_port_that_is_taken_is_one_clear_line(transactional_db: None) -> None:
    with server.bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        refused = run("--port", str(port))
    assert refused.returncode == 1
    assert refused.stderr.strip().splitlines() == [
        f"CommandError: port {port} of 127.0.0.1 is taken; choose another with --port"
    ]


def test_a_database_without_migrations_is_refused(transactional_db: None, tmp_path: Path) -> None:
    refused = run("--port", "0", DATABASE_URL=f"sqlite:///{tmp_path / 'new.sqlite3'}")
    assert refused.returncode == 1
    assert re.fullmatch(
        r"CommandError: the database lacks \d+ migrations; run: python manage.py migrate",
        refused.stderr.strip(),
    )


def test_a_database_out_of_reach_is_one_clear_line(transactional_db: None) -> None:
    refused = run("--port", "0", DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert refused.returncode == 1
    assert "CommandError: the database can't be reached" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_several_workers_need_redis(transactional_db: None) -> None:
    refused = run("--port", "0", "--workers", "2", REDIS_URL="")
    assert refused.returncode == 1
    assert "--workers: use 1, or set REDIS_URL" in refused.stderr


def test_a_bad_port_variable_is_named(transactional_db: None) -> None:
    refused = run(PORT="80000")
    assert refused.returncode == 1
    assert "PORT: '80000' is not a number from 0 to 65535" in refused.stderr


def test_listen_names_the_channels_it_cannot_hold(transactional_db: None) -> None:
    acme = make.organization()
    make.channel(acme)
    call_command("listen")
    make.channel(acme, "long", config={"transport": "long_connection", "app_id": "cli_2"})
    make.channel(acme, "off", config={"transport": "long_connection", "app_id": "cli_3"}, enabled=False)
    with pytest.raises(CommandError) as refused:
        call_command("listen")
    assert str(refused.value) == (
        "acme/long: transport long_connection is not available in this release; set transport to webhook"
    )


def test_json_logs_are_json(transactional_db: None) -> None:
    with serving(HOOKGATE_LOG_FORMAT="json") as served:
        assert httpx.get(f"{served.url}/sandbox/").status_code == 404
        assert served.end() < 6
    code = "import logging\ntry:\n  secret='s3cret'; 1/0\nexcept Exception: logging.exception('boom')"
    logged = subprocess.run(
        [sys.executable, "-c", f"import django; django.setup()\n{code}"],
        env=environment(HOOKGATE_LOG_FORMAT="json"),
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    line = json.loads(logged.stderr)
    assert line["event"] == "boom"
    assert "ZeroDivisionError" in line["exception"]
    assert "s3cret" not in logged.stderr
