"""Asking Redis something, briefly: it answers within a second or counts as out of reach."""

from typing import Any

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

TIMEOUT = 1.0  # seconds


def client() -> Any:
    """A client of ``REDIS_URL`` that tries once; close it, or use it in a ``with``."""
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=TIMEOUT,
        socket_connect_timeout=TIMEOUT,
        retry=Retry(NoBackoff(), 0),
    )


# Written again and again, and worth nothing.
PROBE = "hookgate:probe"
PROBE_SECONDS = 60


def check_writable(client: Any) -> None:
    """Write a key. A server that answers may still refuse: a replica, one that loads or is full, one with a password.

    Raises ``redis.RedisError`` in the server's words.
    """
    client.set(PROBE, 1, ex=PROBE_SECONDS)
