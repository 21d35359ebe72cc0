"""``/healthz``, ``/readyz``, ``/metrics``."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from channels_app import channels
from channels_app.models import Delivery
from hooks_app import confirmations
from hooks_app import metrics as measures
from portal import audit
from portal.lib import clock
from portal.observe import metrics
from portal.serving import embedded
from portal.wakeups import wakeups
from tests import make, services
from tests.machinery.live import Portal, until


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Everything works."""
    settings.REDIS_URL = ""
    monkeypatch.setattr(embedded, "alive", lambda: True)
    monkeypatch.setattr(wakeups, "hears", lambda: True)


def test_a_living_process_says_so_without_the_database(client: Client) -> None:
    answer = client.get("/healthz")  # no database in this test: touching it would fail
    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


def test_a_running_portal_hears_and_waits(portal: Portal) -> None:
    until(wakeups.hears, what="the relay's connection")
    checks = portal.get("/readyz").json()["checks"]
    assert checks["database"]["ok"]
    assert checks["wakeups"] == {"ok": True, "detail": "0 waiting"}
    assert checks["deliveries"] == {"ok": True, "detail": "oldest due delivery: 0 s"}


@pytest.mark.usefixtures("ready", "db")
def test_all_parts_are_named(client: Client) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ready"
    assert set(answer.json()["checks"]) == {"agents", "database", "broker", "wakeups", "deliveries"}


@pytest.mark.usefixtures("ready", "db")
def test_a_process_without_a_worker_is_not_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "alive", lambda: False)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "not_ready")
    assert "manage.py serve" in answer.json()["checks"]["broker"]["detail"]


@pytest.mark.usefixtures("ready", "db")
def test_redis_is_asked_when_there_is_one(client: Client, settings: Any) -> None:
    settings.REDIS_URL = services.redis_url()
    assert client.get("/readyz").json()["checks"]["broker"] == {"ok": True, "detail": "redis"}
    settings.REDIS_URL = "redis://:s3cret@127.0.0.1:1/0"
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"]["broker"] == {"ok": False, "detail": "failed: ConnectionError"}
    assert "s3cret" not in answer.content.decode()


@pytest.mark.usefixtures("ready", "db")
def test_being_cut_off_is_not_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "hears", lambda: False)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert not answer.json()["checks"]["wakeups"]["ok"]


@pytest.fixture
def delivery(db: None) -> Delivery:
    """A card that is due now, and that nobody sends."""
    return channels.send_test(make.channel(make.organization()))[0]


@pytest.mark.usefixtures("ready")
def test_a_delivery_that_nobody_sends_is_not_ready(client: Client, delivery: Delivery) -> None:
    with clock.shifted(timedelta(seconds=50)):
        assert client.get("/readyz").status_code == 200
    with clock.shifted(timedelta(seconds=90)):
        answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "oldest due delivery: 9" in answer.json()["checks"]["deliveries"]["detail"]


@pytest.mark.usefixtures("ready")
def test_metrics_count_and_read(client: Client, delivery: Delivery) -> None:
    before = sample(client, 'hookgate_streams_total{kind="agent"}')
    metrics.count(measures.STREAMS, kind="agent")
    with clock.shifted(timedelta(seconds=90)):
        assert sample(client, 'hookgate_streams_total{kind="agent"}') == before + 1
        assert sample(client, 'hookgate_deliveries{status="queued"}') == 1
        assert sample(client, 'hookgate_deliveries{status="unknown"}') == 0
        assert 89 < sample(client, "hookgate_oldest_due_delivery_seconds") < 100
        assert sample(client, "hookgate_waiting") == 0


def test_what_happened_to_requests_is_counted(portal: Portal, world: Any, pending: Any) -> None:
    def read() -> dict[str, float]:
        lines = [line for line in portal.get("/metrics").text.splitlines() if not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}

    before = read()
    voted, _ = pending(), pending()
    confirmations.decide(request_id=voted.pk, voter=confirmations.Voter(user=world.bob), decision="approve")
    confirmations.cancel(request=pending(), actor=audit.SHELL)
    after = read()
    assert after["hookgate_requests_pending"] == 1
    grown = {
        'hookgate_transitions_total{status="approved"}': 1,
        'hookgate_transitions_total{status="cancelled"}': 1,
        'hookgate_transitions_total{status="expired"}': 0,
        'hookgate_request_seconds_count{status="approved"}': 1,
        'hookgate_decisions_total{decision="approve",path="api"}': 1,
    }
    assert {name: after[name] - before[name] for name in grown} == grown


def sample(client: Client, name: str) -> float:
    """The value of one time series; 0 when it isn't there yet."""
    lines = client.get("/metrics").content.decode().splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), 0.0)


def test_counters_are_declared() -> None:
    with pytest.raises(ValueError):
        metrics.count(measures.STREAMS, colour="red")


@pytest.mark.django_db
def test_metrics_have_a_token_when_one_is_set(client: Client, settings: Any) -> None:
    settings.METRICS_TOKEN = "scrape-me"
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/metrics", headers={"Authorization": "Bearer scrape-me"}).status_code == 200


@pytest.mark.django_db
def test_people_sign_in_and_out(client: Client) -> None:
    make.user("bob", make.organization(), password="a-long-password")
    page = client.get("/")
    assert (page.status_code, page["Location"]) == (302, "/login/?next=/")
    assert client.get("/login/").status_code == 200
    answer = client.post("/login/", {"username": "bob", "password": "wrong"})
    assert answer.status_code == 200
    answer = client.post("/login/", {"username": "bob", "password": "a-long-password"})
    assert (answer.status_code, answer["Location"]) == (302, "/inbox/")
    assert client.get("/")["Location"] == "/inbox/"
    assert client.post("/logout/")["Location"] == "/login/"
