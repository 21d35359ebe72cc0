"""One token per app, whoever asks and how many ask at once."""

import threading

import pytest
from django.db import connection

from channels_app import channels
from channels_app.models import App, Channel
from channels_app.outbox import deliveries
from channels_app.sandbox.server import SandboxServer
from channels_app.tokens import AppTokens
from portal.lib import clock
from tests.channels.conftest import APP_ID, again, messages, replace, save, send
from tests.conftest import Clock


def fetched(server: SandboxServer) -> int:
    count: int = server.look("counters")["token_requests"].get(APP_ID, 0)
    return count


@pytest.mark.django_db(transaction=True)
def test_many_threads_fetch_once(channel: Channel, server: SandboxServer) -> None:
    server.control("failures", endpoint="token", delay_ms=150)
    barrier = threading.Barrier(12)
    tokens: list[str] = []
    adapter = channels.open_adapter(channel)

    def work() -> None:
        barrier.wait(5)
        tokens.append(AppTokens(App.objects.get(pk=channel.app_id)).get(adapter._api.fetch_token))  # type: ignore[attr-defined]
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(12)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
    assert len(tokens) == 12
    assert len(set(tokens)) == 1
    assert fetched(server) == 1


def test_many_cards_cost_one_token(channel: Channel, server: SandboxServer) -> None:
    save(channel.organization, server, "second")
    for number in range(5):
        send(channel, f"t:{number}")
    assert deliveries.sweep() == 5
    assert fetched(server) == 1


def test_a_token_called_invalid_is_renewed_once_in_the_same_call(
    channel: Channel, server: SandboxServer
) -> None:
    row = send(channel)
    deliveries.sweep()
    server.control("tokens/invalidate", app_id=APP_ID)
    replace()
    deliveries.sweep()
    assert fetched(server) == 2
    assert again(row).shown_version == 2
    assert again(row).attempts == 2


def test_a_token_that_stays_invalid_is_not_asked_for_again_and_again(
    channel: Channel, server: SandboxServer
) -> None:
    refusal = {"code": 99991663, "msg": "Invalid access token"}
    server.control("failures", endpoint="send", status=400, body=refusal, count=100)
    row = send(channel)
    deliveries.sweep()
    assert len(server.look("calls", endpoint="send")["calls"]) <= 2
    assert fetched(server) <= 2
    assert again(row).status == "queued"


def test_a_token_is_renewed_before_it_ends(channel: Channel, server: SandboxServer, time: Clock) -> None:
    send(channel)
    deliveries.sweep()
    time.advance(seconds=7200 - 301)
    replace()
    deliveries.sweep()
    assert fetched(server) == 1
    time.advance(seconds=2)
    replace(ended="Expired")
    deliveries.sweep()
    assert fetched(server) == 2
    assert "Expired" in str(messages(server))


def test_a_dead_workers_lease_ends(channel: Channel, server: SandboxServer, time: Clock) -> None:
    App.objects.filter(pk=channel.app_id).update(token_lease_until=clock.now())
    send(channel)
    assert deliveries.sweep() == 1
    assert len(messages(server)) == 1


def test_the_token_is_not_in_clear(channel: Channel, server: SandboxServer) -> None:
    send(channel)
    deliveries.sweep()
    token = App.objects.get(pk=channel.app_id).token
    assert token.startswith("t-")
    with connection.cursor() as cursor:
        cursor.execute("SELECT token FROM channels_app_app")
        assert token not in cursor.fetchone()[0]


def test_a_wrong_secret_fails_for_good(channel: Channel, server: SandboxServer, owner: object) -> None:
    server.control("apps", app_id=APP_ID, app_secret="another")
    row = send(channel)
    deliveries.sweep()
    assert again(row).status == "failed"
    assert (again(row).last_error or "").startswith("10015")
    assert "app-secret" not in (again(row).last_error or "")
