"""How a wake-up reaches the other processes: through Redis, through PostgreSQL, or by watching the SQLite file.

A relay sends the topics of this process's changes (and never raises: a lost wake-up costs time, not truth), and
listens for the others' in one thread with one connection. Whenever it may have missed something, it says so by
calling ``hub.wake_all``: after connecting, after reconnecting, and when a sender reports a loss.
"""

import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol
from urllib.parse import quote

import psycopg
import redis
import structlog
from django.conf import settings
from django.db import connections
from redis.backoff import NoBackoff
from redis.retry import Retry

from portal.postgresql.base import is_direct
from portal.wakeups.hub import Hub

CHANNEL = "hookgate_wakeups"
# What a sender adds after it has lost a message.
EVERYTHING = "*"
# What a listener sends to hear whether messages still arrive; nobody waits for it.
NOTHING = "-"
POLL_SECONDS = 1.0
# Seconds between two looks at the SQLite file, each a few microseconds, and how many pass after one that found
# something: whoever waits reads then, and a process that writes all the time must not make them read all the time.
LOOK_SECONDS = 0.2
LOOKS_LEFT_OUT = 2
# Seconds for connecting to Redis, and for one command: together they stay below the second that a publisher may lose.
SEND_TIMEOUT = 0.3
# Seconds for which a relay that failed is left alone by those who send.
REST = 2.0
# Seconds after which a silent connection is asked whether it still lives, and for which it may owe the answer.
HEALTH_SECONDS = 2.0
ANSWER_SECONDS = 3.0
# Seconds for the listener's connection of its own.
CONNECT_SECONDS = 3
# PostgreSQL takes less than 8000 bytes in one notification.
LARGEST_PAYLOAD = 7000

log = structlog.get_logger(__name__)

_TOKEN = secrets.token_hex(8)


class Relay(Protocol):
    """One way to the other processes."""

    def send(self, topics: Sequence[str]) -> None:
        """Tell the other processes. Never raises, and takes less than a second."""

    def listen(self, hub: Hub, *, connected: Callable[[], None], stop: threading.Event) -> None:
        """Wake ``hub`` with what others send until ``stop``; call ``connected`` once it hears; raise when cut off."""


def configured() -> Relay:
    """The relay that the settings ask for: Redis when there is one, else the database's own means."""
    if settings.REDIS_URL:
        return RedisRelay(settings.REDIS_URL)
    if connections["default"].vendor == "postgresql":
        return PostgresRelay()
    return SQLiteRelay(str(connections["default"].settings_dict["NAME"]))


class OutageLog:
    """Remembers that messages were lost: logs the first, and lets the next message that gets through wake everybody."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._failing = False
        self._resting_until = 0.0

    @property
    def rests(self) -> bool:
        """Whether trying is pointless just now. Whatever is not sent meanwhile is lost as well."""
        return self._failing and time.monotonic() < self._resting_until

    @property
    def owes(self) -> bool:
        """Whether something was lost that nobody has been told yet, and it is time to try."""
        return self._failing and not self.rests

    def cover(self, topics: Sequence[str]) -> Sequence[str]:
        """The topics to send now."""
        return [EVERYTHING] if self._failing else topics

    def failed(self, error: Exception) -> None:
        """A message was lost."""
        if not self._failing:
            log.error(self._event, error=type(error).__name__)
        self._failing = True
        self._resting_until = time.monotonic() + REST

    def succeeded(self) -> None:
        """A message got through."""
        self._failing = False


def encode(topics: Sequence[str]) -> Iterator[str]:
    """Messages of at most ``LARGEST_PAYLOAD`` characters, each naming its sender first."""
    head = f"{_TOKEN}.{os.getpid()}"
    message = head
    for topic in topics:
        if len(message) + 1 + len(topic) > LARGEST_PAYLOAD:
            yield message
            message = head
        message += f" {topic}"
    if message != head:
        yield message


def receive(message: str, hub: Hub) -> None:
    """Wake whom a message speaks to. Our own come back and are dropped: their publisher has woken us already."""
    sender, *topics = message.split(" ")
    if sender == f"{_TOKEN}.{os.getpid()}":
        return
    if EVERYTHING in topics:
        hub.wake_all()
    else:
        hub.wake(topics)


class RedisRelay:
    """Pub/sub on one channel: one shared client that sends, one connection that listens."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Any = redis.Redis.from_url(
            url,
            socket_timeout=SEND_TIMEOUT,
            socket_connect_timeout=SEND_TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
        self._outage_log = OutageLog("wakeups.redis_send_failed")

    def send(self, topics: Sequence[str]) -> None:
        """Publish; a failure is logged once, and nobody waits for the next one for a while."""
        if self._outage_log.rests:
            return
        try:
            for message in encode(self._outage_log.cover(topics)):
                self._client.publish(CHANNEL, message)
        except (redis.RedisError, OSError) as error:
            self._outage_log.failed(error)
        else:
            self._outage_log.succeeded()

    def listen(self, hub: Hub, *, connected: Callable[[], None], stop: threading.Event) -> None:
        """Subscribe, and wake everybody at every confirmation of it: the client may reconnect by itself."""
        client: Any = redis.Redis.from_url(
            self._url,
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        try:
            pubsub = client.pubsub()
            pubsub.subscribe(CHANNEL)
            heard = asked = time.monotonic()
            while not stop.is_set():
                message = pubsub.get_message(timeout=POLL_SECONDS)
                if self._outage_log.owes:
                    self.send(())
                now = time.monotonic()
                if message is None:
                    # A server that is frozen, or behind a cut network, closes nothing: it only answers no more.
                    if now - heard > HEALTH_SECONDS + ANSWER_SECONDS:
                        raise redis.TimeoutError("no sign of life")
                    if now - max(heard, asked) > HEALTH_SECONDS:
                        # Not a ping: an old subscription may live on at a server that takes no message any more (it
                        # wants a password, say), and then nobody is told anything. One message shows both ways.
                        client.publish(CHANNEL, next(encode([NOTHING])))
                        asked = now
                    continue
                heard = now
                if message["type"] == "subscribe":
                    connected()
                    hub.wake_all()
                elif message["type"] == "message":
                    receive(message["data"].decode(), hub)
        finally:
            client.close()


class NotDirect(Exception):
    """Notifications don't come through a transaction pooler; the text says what to do."""


class PostgresRelay:
    """NOTIFY in the sender's own connection, LISTEN in one of its own."""

    def __init__(self) -> None:
        self._outage_log = OutageLog("wakeups.notify_failed")

    def send(self, topics: Sequence[str]) -> None:
        """Notify; inside a transaction PostgreSQL itself holds it back until the commit."""
        try:
            with connections["default"].cursor() as cursor:
                for message in encode(self._outage_log.cover(topics)):
                    cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, message])
        except Exception as error:  # noqa: BLE001  # a wake-up never fails its publisher, whatever the driver raises
            self._outage_log.failed(error)
        else:
            self._outage_log.succeeded()

    def listen(self, hub: Hub, *, connected: Callable[[], None], stop: threading.Event) -> None:
        """Listen on a dedicated connection, and ask it for a sign of life when it has been silent."""
        with _listening_connection() as connection:
            if not is_direct(connection):
                raise NotDirect("the database is behind a pooler: set HOOKGATE_LISTEN_URL or REDIS_URL")
            connection.execute(f"LISTEN {CHANNEL}")
            connected()
            hub.wake_all()
            silent = 0.0
            while not stop.is_set():
                heard = [notice.payload for notice in connection.notifies(timeout=POLL_SECONDS, stop_after=1)]
                for message in heard:
                    receive(message, hub)
                silent = 0.0 if heard else silent + POLL_SECONDS
                if silent >= HEALTH_SECONDS:
                    connection.execute("SELECT 1")
                    silent = 0.0


def _listening_connection() -> "psycopg.Connection[Any]":
    if settings.LISTEN_URL:
        return psycopg.connect(settings.LISTEN_URL, autocommit=True, connect_timeout=CONNECT_SECONDS)
    parameters: dict[str, Any] = connections["default"].get_connection_params()
    return psycopg.connect(**{**parameters, "autocommit": True})


class SQLiteRelay:
    """Nothing is sent: the file itself tells that somebody has committed. Looked at only while somebody waits.

    Another process's change is heard of after ``LOOK_SECONDS``, and after three times that while there are many.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def send(self, topics: Sequence[str]) -> None:
        """The commit has already said it."""

    def listen(self, hub: Hub, *, connected: Callable[[], None], stop: threading.Event) -> None:
        """Wake everybody when another connection has committed. Says neither who nor what."""
        with closing(_open(self._path)) as connection:
            connected()
            seen, left_out = None, 0
            while not stop.is_set():
                if not hub.wait_for_someone(POLL_SECONDS):
                    continue
                if left_out:
                    left_out -= 1
                elif (version := connection.execute("PRAGMA data_version").fetchone()) != seen:
                    seen, left_out = version, LOOKS_LEFT_OUT
                    hub.wake_all()
                stop.wait(LOOK_SECONDS)


def _open(path: str) -> sqlite3.Connection:
    # mode=rw: watching never creates the database.
    uri = path if path.startswith("file:") else f"file:{quote(path)}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=1)
