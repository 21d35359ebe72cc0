"""The counters behind every moving-window rate limit: in Redis, or in this process when there is none."""

from functools import lru_cache
from typing import Any

from django.conf import settings
from limits.storage import MemoryStorage, RedisStorage, Storage
from limits.strategies import MovingWindowRateLimiter
from redis.backoff import NoBackoff
from redis.retry import Retry

# Seconds. A counter that can't be asked must not hold up what it guards.
REDIS_SECONDS = 1.0


def limiter() -> MovingWindowRateLimiter:
    """The limiter of this process. Its calls raise ``limits.errors.StorageError`` when Redis can't be reached."""
    return MovingWindowRateLimiter(storage(settings.REDIS_URL))


@lru_cache(maxsize=4)
def storage(redis_url: str) -> Storage:
    """The counters at a URL; this process's own for an empty one. ``storage.cache_clear()`` forgets them."""
    if not redis_url:
        return MemoryStorage()
    # The library hands its options on to the client; its types name the commonest alone.
    options: dict[str, Any] = {
        "socket_timeout": REDIS_SECONDS,
        "socket_connect_timeout": REDIS_SECONDS,
        "retry": Retry(NoBackoff(), 0),
    }
    return RedisStorage(redis_url, wrap_exceptions=True, **options)
