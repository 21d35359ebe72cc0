"""Rate buckets in front of the platforms, which hold back or drop what comes too fast.

Shared through Redis when there is Redis, else kept by this process. An empty bucket makes nobody wait here: the caller
moves its row's due time.
"""

import time
from functools import cache

import structlog
from django.conf import settings
from limits import parse
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import MovingWindowRateLimiter
from redis.backoff import NoBackoff
from redis.retry import Retry

log = structlog.get_logger(__name__)


@cache
def _limiter() -> MovingWindowRateLimiter:
    storage: RedisStorage | MemoryStorage = (
        RedisStorage(
            settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0)
        )
        if settings.REDIS_URL
        else MemoryStorage()
    )
    return MovingWindowRateLimiter(storage)


def take(rate: str, *names: str) -> float:
    """Take one call out of the bucket ``names``, which refills at ``rate`` (``5/second``).

    Returns 0, or the seconds after which to ask again. When the storage can't be reached the call goes ahead: the
    platform's own refusal is handled too.
    """
    item = parse(rate)
    try:
        if _limiter().hit(item, *names):
            return 0.0
        reset = _limiter().get_window_stats(item, *names).reset_time
    except Exception as error:  # noqa: BLE001  # storages raise their clients' own errors
        log.warning("rate_bucket_unreachable", error=type(error).__name__)
        return 0.0
    return max(0.05, reset - time.time())
