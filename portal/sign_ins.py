"""Failed sign-ins: how many an address may have over all names, and how long the table of them gets."""

import time
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

import structlog
from axes.helpers import get_cool_off
from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.signals import user_login_failed
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from django.utils.translation import ngettext
from limits import RateLimitItem, RateLimitItemPerHour, RateLimitItemPerMinute
from limits.errors import StorageError
from limits.strategies import MovingWindowRateLimiter

from portal import windows
from portal.lib import clock
from portal.lib.problems import Problem

# Of the counters.
NAMESPACE = "hookgate-sign-in"
# Of the table in which names are locked. Beyond it the oldest go, whatever they lock.
MOST_ROWS = 20_000
# How many rows may come before it is looked whether there are too many.
SLACK = 100
BATCH = 1000

log = structlog.get_logger(__name__)


class AddressBackend(BaseBackend):
    """Signs nobody in: refuses an address that has failed too often, before a password is looked at."""

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> None:
        """Raises 429 ``too_many_failures``."""
        if request is not None:
            check(request)


def peer(request: HttpRequest) -> str:
    """Who asks: the peer of the connection, or whom a trusted proxy names (the server has put it there)."""
    return str(request.META.get("REMOTE_ADDR") or "")


def network(address: str) -> str:
    """What counts as one address: of IPv6 the /64, as every home has one."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is None:
            return str(ip_network((found, 64), strict=False))
        found = found.ipv4_mapped
    return str(found)


def check(request: HttpRequest) -> None:
    """Raise 429 ``too_many_failures`` with the time until the address may try again."""
    key = network(peer(request))
    waits = [wait for window in _windows() if (wait := _wait(window, key)) > 0]
    if not waits:
        return
    minutes = max(1, round(max(waits) / 60))
    text = ngettext(
        "Too many sign-ins from this address have failed, with whatever name. Try again in %(minutes)d minute.",
        "Too many sign-ins from this address have failed, with whatever name. Try again in %(minutes)d minutes.",
        minutes,
    )
    raise Problem(429, "too_many_failures", text % {"minutes": minutes}, retry_after=max(waits))


def note(request: HttpRequest) -> None:
    """Count one wrong password."""
    key = network(peer(request))
    for window in _windows():
        try:
            windows.limiter().hit(window, key)
        except StorageError as error:
            log.warning("sign_ins.counted_here_alone", reason=type(error).__name__)
            _own().hit(window, key)


def _windows() -> list[RateLimitItem]:
    return [
        RateLimitItemPerMinute(settings.FAILED_SIGN_INS_PER_MINUTE, namespace=NAMESPACE),
        RateLimitItemPerHour(settings.FAILED_SIGN_INS_PER_HOUR, namespace=NAMESPACE),
    ]


def _wait(window: RateLimitItem, key: str) -> float:
    """Seconds until the window has room again; 0 while it has."""
    try:
        stats = windows.limiter().get_window_stats(window, key)
    except StorageError:
        stats = _own().get_window_stats(window, key)
    return max(1.0, stats.reset_time - time.time()) if stats.remaining <= 0 else 0.0


def _own() -> MovingWindowRateLimiter:
    """Without Redis people must be able to sign in, and each process counts for itself."""
    return MovingWindowRateLimiter(windows.storage(""))


def _failed(sender: Any, request: HttpRequest | None = None, **kwargs: Any) -> None:
    # A name that is locked is refused without a look at the password: no guess was made.
    if request is None or getattr(request, "axes_locked_out", False):
        return
    note(request)
    newest = AccessAttempt.objects.order_by("-pk").values_list("pk", flat=True).first()
    if newest is not None and newest % SLACK == 0:
        trim()


def trim() -> int:
    """Keep the newest rows of the table of failed sign-ins, at most ``MOST_ROWS``. Returns how many went."""
    oldest = AccessAttempt.objects.order_by("-pk").values_list("pk", flat=True)[MOST_ROWS : MOST_ROWS + 1]
    gone = 0
    for pk in oldest:
        gone, _by_model = AccessAttempt.objects.filter(pk__lte=pk).delete()
    return gone


def purge() -> int:
    """Forget failed sign-ins that lock nothing any more, and sessions that are over. Returns how many rows went.

    In pieces: a table that has grown for a year must not hold up those who sign in.
    """
    done = trim()
    over = AccessAttempt.objects.filter(attempt_time__lt=clock.now() - get_cool_off(None))
    for rows in (over, AccessLog.objects.all()):
        while keys := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
            done += rows.model._default_manager.filter(pk__in=keys).delete()[0]
    SessionStore.clear_expired()
    return done


def connect() -> None:
    """Count from now on; once, when the app is ready."""
    user_login_failed.connect(_failed, dispatch_uid="portal.sign_ins")
