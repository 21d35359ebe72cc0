"""Rate limits: moving windows in Redis, or in this process when there is none.

The windows are those of the ``limits`` library. Counting a declared limit is idempotent: an answer is kept per call,
and the only writer of :class:`hooks_app.models.LimitAcquisition` is here.
"""

import hashlib
import math
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from hookgate import canonical
from limits import RateLimitItemPerSecond
from limits.errors import StorageError

from hooks_app import metrics as measures
from hooks_app.models import Agent, LimitAcquisition
from hooks_app.registry import heads
from portal import windows
from portal.lib import clock
from portal.lib.problems import FieldError, Problem, invalid
from portal.observe import metrics

log = structlog.get_logger(__name__)

HOOK = "connector_rate_limit"
NOTICES_PER_MINUTE = 30
# Milliseconds. A call counts for its whole window, the last moment included, and Redis tells that to 0.1 ms: whoever
# comes back when told so must not be a moment early.
MARGIN = 1
# How long the answer to one call is kept: longer than the longest window.
KEPT = timedelta(days=2)


@dataclass(frozen=True)
class Verdict:
    """Whether a call may go on; ``retry_after_seconds`` is 0 when it may."""

    allowed: bool
    limit: int
    remaining: int
    retry_after_seconds: float


def acquire(*, agent: Agent, hook: UUID, connector: str, user: str | None, call: UUID) -> Verdict:
    """Count ``call`` against the limit that the manifest's hook ``hook`` declares; a repeated ``call`` counts once.

    Raises 400 for a hook that is no rate limit of the agent's registry, 422 ``registry_unbuildable``, 503
    ``limits_unavailable`` when the counter can't be reached.
    """
    max_calls, window_seconds = _declared(agent, hook)
    scope = [str(agent.organization_id), str(agent.pk), str(hook), connector, user]
    try:
        # The row is the claim: a repeat that arrives meanwhile waits for its answer. The counter answers within a
        # second, and nothing but this row is held for that long.
        with transaction.atomic():
            row = LimitAcquisition.objects.create(
                agent=agent, hook=hook, call=call, answer={}, created_at=clock.now()
            )
            verdict = _hit(scope, max_calls, window_seconds)
            row.answer = asdict(verdict)
            row.save(update_fields=["answer"])
            result = "allowed" if verdict.allowed else "refused"
            metrics.count_on_commit(measures.LIMIT_CHECKS, result=result)
            return verdict
    except IntegrityError:
        return Verdict(**LimitAcquisition.objects.get(agent=agent, hook=hook, call=call).answer)


def take_notice(agent: Agent) -> None:
    """Count one notice of ``agent``. Raises 429 ``too_many_notices`` beyond 30 a minute, 503 ``limits_unavailable``."""
    verdict = _hit(["notice", str(agent.pk)], NOTICES_PER_MINUTE, 60)
    if not verdict.allowed:
        raise Problem(
            429,
            "too_many_notices",
            f"An agent may send {NOTICES_PER_MINUTE} notices a minute; wait and send fewer.",
            retry_after=verdict.retry_after_seconds,
        )


def purge() -> int:
    """Forget answers whose call can't be repeated any more. Returns how many."""
    return LimitAcquisition.objects.filter(created_at__lt=clock.now() - KEPT).delete()[0]


def _declared(agent: Agent, hook: UUID) -> tuple[int, int]:
    heads.published(agent)  # refuses a registry that can't be built
    revision = heads.head(agent).revision
    for declared in revision.manifest["hooks"] if revision else []:
        if declared["id"] == str(hook) and declared["name"] == HOOK:
            return declared["params"]["max_calls"], declared["params"]["window_seconds"]
    raise invalid(
        FieldError(
            "hook", "unknown_hook", f"is no {HOOK} hook of this agent's registry; fetch the registry again"
        )
    )


def _hit(scope: list[str | None], amount: int, seconds: int) -> Verdict:
    # A digest, because the parts are the client's text and the library joins keys with "/".
    key = hashlib.sha256(canonical.canonicalize(scope)).hexdigest()
    window = RateLimitItemPerSecond(amount, seconds, namespace="hookgate")
    limiter = windows.limiter()
    try:
        allowed = limiter.hit(window, key)
        stats = limiter.get_window_stats(window, key)
    except StorageError as error:
        log.error("limits.unavailable", reason=type(error).__name__)
        raise Problem(
            503, "limits_unavailable", "The counter of rate limits can't be reached; try again."
        ) from None
    milliseconds = 0 if allowed else max(0, math.ceil((stats.reset_time - time.time()) * 1000)) + MARGIN
    return Verdict(
        allowed=allowed,
        limit=amount,
        remaining=max(0, stats.remaining),
        retry_after_seconds=milliseconds / 1000,
    )
