"""What protects people and operators on every page and in every line of the log."""

import json
import logging
import re
import subprocess
import sys
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.test import Client

from portal.observe import exposition, logs
from tests import make

EVIL = "x\r\n2026-11-30T00:00:00Z [info] confirmation.approved\x1b[2J\u202e\u2028\x00\ud800"


@pytest.fixture
def alice(db: None) -> Client:
    """A signed-in admin's browser."""
    browser = Client()
    browser.force_login(
        make.user("alice", make.organization(), "admin"), "django.contrib.auth.backends.ModelBackend"
    )
    return browser


def test_pages_run_nothing_that_is_not_ours(alice: Client) -> None:
    page = alice.get("/inbox/").headers["Content-Security-Policy"]
    assert "default-src 'self'" in page
    assert "script-src" not in page  # so scripts are 'self' alone
    for path in ("/inbox/", "/admin/"):
        policy = alice.get(path).headers["Content-Security-Policy"]
        for rule in ("object-src 'none'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'"):
            assert rule in policy
        assert "http" not in policy
    assert "Content-Security-Policy" not in alice.get("/healthz").headers


def test_a_session_is_kept_from_scripts_and_other_sites(client: Client, db: None) -> None:
    make.user("bob", make.organization(), password="a-long-password")
    client.post("/login/", {"username": "bob", "password": "a-long-password"})
    cookie = client.cookies["sessionid"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


def test_with_an_https_origin_cookies_travel_by_tls_alone() -> None:
    names = ["SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_HSTS_SECONDS"]
    program = f"from portal import settings; print(*(getattr(settings, name) for name in {names}))"
    environment = {
        "HOOKGATE_BASE_URL": "https://hookgate.example.com",
        "HOOKGATE_SECRET_KEY": "x",
        "HOOKGATE_ENCRYPTION_KEYS": "x",
        "DATABASE_URL": "postgresql://x@127.0.0.1/x",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=settings.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", "True", "31536000"]


@pytest.mark.django_db
def test_passwords_are_hashed_slowly() -> None:
    person = make.user("bob", make.organization(), password="a-long-password")
    person.refresh_from_db()
    assert person.password.startswith("argon2$argon2id$")


def line_of(monkeypatch: pytest.MonkeyPatch, form: str, **fields: Any) -> str:
    """One event as it is written."""
    monkeypatch.setattr(settings, "LOG_FORMAT", form)
    record = logging.LogRecord("hookgate", logging.INFO, "", 0, {"event": EVIL, **fields}, (), None)
    record._logger, record._name = logging.getLogger("hookgate"), "info"
    return logs.formatter().format(record)


@pytest.mark.parametrize("form", ["console", "json"])
def test_nobody_writes_a_line_of_their_own(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = line_of(monkeypatch, form, user_agent=EVIL, tool={"name": EVIL})
    assert len(line.splitlines()) == 1
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u202e\ud800]", line)
    line.encode()
    if form == "json":
        assert json.loads(line)["user_agent"] == EVIL


def test_a_traceback_is_indented_so_that_no_line_of_it_looks_like_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = line_of(monkeypatch, "console", exception=f"Traceback\nValueError: {EVIL}").splitlines()
    assert len(lines) > 1
    assert all(line.startswith("  ") for line in lines[1:])


@pytest.mark.django_db
def test_a_request_is_logged_without_its_query_and_by_its_peer(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        client.get(
            "/login/?next=/secret-place", headers={"X-Forwarded-For": "203.0.113.9", "X-Request-ID": "mine"}
        )
    text = str([record.msg for record in caplog.records])
    assert "GET /login/" in text
    assert "127.0.0.1" in text
    for absent in ("secret-place", "203.0.113.9", "mine"):
        assert absent not in text


@pytest.mark.django_db
def test_the_metrics_token_is_asked_for_and_never_logged(
    client: Client, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.METRICS_TOKEN = "scrape-me"
    with caplog.at_level(logging.DEBUG):
        assert client.get("/metrics", headers={"Authorization": "Bearer scrape-me"}).status_code == 200
        assert client.get("/metrics", headers={"Authorization": "Bearer scrape-you"}).status_code == 401
    assert "scrape" not in str([record.msg for record in caplog.records])


def test_a_workers_own_address_asks_for_it_too(settings: Any) -> None:
    settings.METRICS_TOKEN = "scrape-me"
    server = exposition.listen("127.0.0.1:0")
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        assert httpx.get(f"{url}/metrics", trust_env=False).status_code == 401
        assert httpx.get(f"{url}/", trust_env=False).status_code == 404
        answer = httpx.get(f"{url}/metrics", headers={"Authorization": "Bearer scrape-me"}, trust_env=False)
        assert answer.status_code == 200
        assert "hookgate_tasks_total" in answer.text
        assert "hookgate_requests_pending" not in answer.text  # the database is the web side's to read
    finally:
        server.shutdown()
        server.server_close()
