"""Rate buckets in front of the platforms, which hold back or drop what comes too fast.

Shared through Redis when there is Redis, else kept by this process. An empty bucket makes nobody wait here: the caller
moves its row's due time, to when its turn is.
"""

from datetime import timedelta

import structlog
from limits import parse
from limits.errors import StorageError

from portal import windows
from portal.lib import clock

# Seconds. The calls of a burst come back one after the other; who asks a little later finds several.
SLACK = 0.05

log = structlog.get_logger(__name__)


def take(rate: str, *names: str, behind: int = 0) -> bool:
    """Take one call out of the bucket ``names``, which refills at ``rate`` (``5/second``); says whether there was one.

    The last ``behind`` calls are left to those who stand before the caller. When the storage can't be reached the
    call goes ahead: the platform's own refusal is handled too.
    """
    item = parse(rate)
    try:
        if behind and windows.limiter().get_window_stats(item, *names).remaining <= behind:
            return False
        return windows.limiter().hit(item, *names)
    except StorageError as error:
        log.warning("buckets.unreachable", error=type(error).__name__)
        return True


def window(rate: str) -> timedelta:
    """How long after a full burst the whole bucket is free again."""
    return timedelta(seconds=parse(rate).get_expiry() + SLACK)


def wait(rate: str, *names: str, behind: int = 0) -> float:
    """Seconds until the bucket has a call for whoever stands behind ``behind`` others."""
    item = parse(rate)
    turns = behind // item.amount * item.get_expiry() + SLACK
    try:
        stats = windows.limiter().get_window_stats(item, *names)
    except StorageError as error:
        log.warning("buckets.unreachable", error=type(error).__name__)
        return turns
    if stats.remaining:
        # What is left belongs to those in front; of what comes free, evenly in the long run, one is for the caller.
        missing = max(1, behind - stats.remaining + 1)
        return missing * item.get_expiry() / item.amount + SLACK
    return max(0.0, stats.reset_time - clock.now().timestamp()) + turns
