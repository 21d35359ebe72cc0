"""Rate buckets in front of the platforms, which hold back or drop what comes too fast.

Shared through Redis when there is Redis, else kept by this process. An empty bucket makes nobody wait here: the caller
moves its row's due time, to when its turn is.
"""

from functools import cache

import structlog
from django.conf import settings
from limits import parse
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import MovingWindowRateLimiter
from redis.backoff import NoBackoff
from redis.retry import Retry

from portal.lib import clock

# Seconds. The calls of a burst come back one after the other; who asks a little later finds several.
SLACK = 0.05

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


def take(rate: str, *names: str, behind: int = 0) -> bool:
    """Take one call out of the bucket ``names``, which refills at ``rate`` (``5/second``); says whether there was one.

    The last ``behind`` calls are left to those who stand before the caller. When the storage can't be reached the
    call goes ahead: the platform's own refusal is handled too.
    """
    item = parse(rate)
    try:
        if behind and _limiter().get_window_stats(item, *names).remaining <= behind:
            return False
        return _limiter().hit(item, *names)
    except Exception as error:  # noqa: BLE001  # storages raise their clients' own errors
        log.warning("rate_bucket_unreachable", error=type(error).__name__)
        return True


def wait(rate: str, *names: str, behind: int = 0) -> float:
    """Seconds until the bucket has a call for whoever stands behind ``behind`` others."""
    item = parse(rate)
    turns = behind // item.amount
    free_in = 0.0
    try:
        window = _limiter().get_window_stats(item, *names)
    except Exception as error:  # noqa: BLE001  # storages raise their clients' own errors
        log.warning("rate_bucket_unreachable", error=type(error).__name__)
    else:
        if window.remaining:
            # What is left belongs to those in front.
            turns = max(1, turns)
        else:
            free_in = max(0.0, window.reset_time - clock.now().timestamp())
    return free_in + turns * item.get_expiry() + SLACK
