"""The portal behind a pooler that gives each transaction another connection of the server."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psycopg
import pytest

from channels_app.sandbox import samples
from channels_app.sandbox.server import SandboxServer
from examples import sample
from examples.portal_process import PortalProcess
from tests import services
from tests.outages import scene as scenes
from tests.outages.pgbouncer import CONNECTIONS, INSTALLED, PgBouncer
from tests.outages.scene import Scene, until

# In CI it is installed, and its absence a failure.
pytestmark = pytest.mark.skipif(
    not INSTALLED and not os.environ.get("HOOKGATE_REQUIRE_BROWSER"), reason="pgbouncer is not installed"
)
_CANCEL = (
    "from hooks_app import confirmations; from hooks_app.models import ConfirmationRequest as R; "
    "confirmations.cancel(request=R.objects.get(pk='{id}'))"
)


@pytest.fixture(scope="module")
def pooler() -> Iterator[PgBouncer]:
    with PgBouncer(services.new_database()) as running:
        yield running


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, pooler: PgBouncer) -> Iterator[Scene]:
    """The portal and its worker through the pooler, without Redis; wake-ups are heard past it."""
    folder = tmp_path_factory.mktemp("pooled")
    with SandboxServer(samples.sample(None)) as sandbox:
        environment = {
            "DATABASE_URL": pooler.url,
            "HOOKGATE_LISTEN_URL": pooler.direct,
            "HOOKGATE_CHANNEL_HOSTS": sandbox.base_url.removeprefix("http://"),
            **sample.placeholders(sandbox.feishu_url),
        }
        with (
            PortalProcess(folder, environment=environment) as portal,
            scenes.opened(portal, sandbox) as scene,
        ):
            yield scene


def test_many_ask_are_decided_and_run_once_over_few_connections(scene: Scene, pooler: PgBouncer) -> None:
    asked = [answer.json()["id"] for answer in scene.together(lambda: _patiently(scene.ask), 24)]
    with ThreadPoolExecutor(24) as pool:
        decided = pool.map(lambda id: _patiently(lambda: scene.decide(id)), asked)
        assert {answer.json()["status"] for answer in decided} == {"approved"}
        rows = [
            answer.json()
            for answer in pool.map(lambda id: _patiently(lambda: scene.get(f"/confirmations/{id}")), asked)
        ]
        consumed = pool.map(lambda row: _patiently(lambda: scene.consume_row(row)), rows)
        assert {answer.status_code for answer in consumed} == {200}
    id = scene.ask().json()["id"]
    until(lambda: scene.cards(id), seconds=30, what="its card")
    # Polls go through statements that are prepared elsewhere.
    registry = f"{scene.portal.url}/api/v1/agents/procurement/registry"
    headers = {"Authorization": f"Bearer {scene.key}"}
    headers["If-None-Match"] = httpx.get(registry, headers=headers).headers["ETag"]
    assert {httpx.get(registry, headers=headers).status_code for _ in range(20)} == {304}
    with psycopg.connect(pooler.direct) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'",
            [pooler.name],
        ).fetchone()
    assert found is not None
    assert found[0] <= CONNECTIONS + 1  # and the one that hears the wake-ups


def _patiently(work: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer, asked for again while the portal says that it has too much to do."""
    for _ in range(30):
        answer = work()
        if answer.status_code != 503:
            return answer
        assert answer.json()["code"] == "overloaded"
        time.sleep(int(answer.headers["Retry-After"]))
    raise AssertionError("overloaded for a minute")


def test_nothing_outlives_a_transaction(scene: Scene, pooler: PgBouncer) -> None:
    scene.together(scene.ask, 12)
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        left = list(pool.map(lambda _: _left_over(pooler), range(CONNECTIONS)))
    assert left == [("0", 0)] * CONNECTIONS


def _left_over(pooler: PgBouncer) -> tuple[str, int]:
    """Of one server connection: its time for locks, and how many statements are prepared."""
    with psycopg.connect(pooler.url, autocommit=True, prepare_threshold=None) as connection:
        row = connection.execute(
            "SELECT current_setting('lock_timeout'), (SELECT count(*) FROM pg_prepared_statements), pg_sleep(0.3)"
        ).fetchone()
    assert row is not None
    return row[0], row[1]


def test_another_process_wakes_who_waits(scene: Scene) -> None:
    id = scene.ask().json()["id"]
    waiting = scene.wait(id)
    until(lambda: scene.waiting() == 1, seconds=10, what="the wait")
    scene.portal.manage("shell", "-c", _CANCEL.format(id=id))
    status, _ = waiting.result(5)
    assert status == "cancelled"


def test_without_a_way_past_the_pooler_it_says_so(tmp_path: Path, scene: Scene, pooler: PgBouncer) -> None:
    environment = {**scene.portal.environment, "HOOKGATE_LISTEN_URL": "", "HOOKGATE_VAR_DIR": str(tmp_path)}
    with PortalProcess(tmp_path, environment=environment) as portal:
        portal.start()
        other = Scene.__new__(Scene)
        other.portal = portal

        def told() -> bool:
            check = other.checks()["wakeups"]
            return not check["ok"] and "HOOKGATE_LISTEN_URL" in check["detail"]

        until(told, seconds=10, what="the remedy")
        assert "HOOKGATE_LISTEN_URL" in portal.log_tail(200)
