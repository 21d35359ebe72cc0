"""Whether the process lives, and whether it can do its work: ``/healthz`` and ``/readyz``."""

from collections.abc import Callable
from dataclasses import dataclass

import redis
import structlog
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import connections, transaction
from django.http import HttpRequest, JsonResponse
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from portal.lib import brokers
from portal.observe import outages
from portal.serving import embedded
from portal.wakeups import wakeups

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Health:
    """How one part is. ``detail`` is for operators, holds no secret and says what to do.

    What is not ``vital`` is told and makes no process unready: another one would find the same.
    """

    ok: bool
    detail: str
    vital: bool = True


Check = Callable[[], Health]


def check_database() -> Health:
    """The database answers a query, and takes writes."""
    vendor = connections["default"].vendor
    try:
        with transaction.atomic(), connections["default"].cursor() as cursor:
            if vendor == "postgresql":
                cursor.execute("SELECT current_setting('transaction_read_only')")
                if cursor.fetchone() == ("on",):
                    return Health(False, outages.words("database_read_only"))
            else:
                cursor.execute("SELECT 1")  # in a transaction that has the right to write
    except outages.ERRORS as error:
        problem = outages.note(error)
        if problem is None:
            raise
        return Health(False, problem.detail)
    return Health(True, vendor)


def check_broker() -> Health:
    """Somebody can be handed work: Redis takes writes, or this process works by itself."""
    if not settings.REDIS_URL:
        if embedded.alive():
            return Health(True, "embedded")
        return Health(
            False, "no worker runs in this process; start it with `manage.py serve`, or set REDIS_URL"
        )
    with brokers.client() as client:
        try:
            brokers.check_writable(client)
        except redis.ResponseError as error:
            # The server's own words, which name neither keys nor passwords.
            return Health(
                False, f"Redis refuses to write: {str(error)[:120]}; cards are delayed until it does"
            )
    return Health(True, "redis")


def check_wakeups() -> Health:
    """What other processes change reaches those who wait here."""
    if wakeups.hears():
        return Health(True, f"{wakeups.waiting()} waiting")
    return Health(False, wakeups.remedy() or "cut off from other processes; trying to connect again")


def checks() -> dict[str, Check]:
    """Every check by name: the portal's own, and those that apps add in ``settings.HEALTH_CHECKS``."""
    found: dict[str, Check] = {
        "database": check_database,
        "broker": check_broker,
        "wakeups": check_wakeups,
    }
    return found | {name: import_string(path) for name, path in settings.HEALTH_CHECKS.items()}


def run(name: str, check: Check) -> Health:
    """One check; one that fails in an unforeseen way is logged and counts as bad."""
    try:
        return check()
    except Exception as error:  # noqa: BLE001  # whatever a broken part raises, it is not ready
        told = outages.explain(error)
        log.warning("health.check_failed", check=name, error=type(error).__name__)
        return Health(False, f"{told.code}: {told.detail}" if told else f"failed: {type(error).__name__}")


@csrf_exempt  # so that what would write is told 405
@require_safe
@never_cache
@login_not_required
def healthz(request: HttpRequest) -> JsonResponse:
    """200 while the process answers at all. Touches nothing else."""
    return JsonResponse({"status": "alive"})


@csrf_exempt  # so that what would write is told 405
@require_safe
@never_cache
@login_not_required
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when every part works, else 503; either way each part is named."""
    found = {name: run(name, check) for name, check in checks().items()}
    ready = all(health.ok or not health.vital for health in found.values())
    body = {
        "status": "ready" if ready else "not_ready",
        "checks": {name: {"ok": health.ok, "detail": health.detail} for name, health in found.items()},
    }
    return JsonResponse(body, status=200 if ready else 503)
