"""Ends without a decision: the deadline, the runtime's cancelling, and the end of retention."""

from datetime import datetime

import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from hooks_app.confirmations import appearance, delivery, rows, transitions
from hooks_app.confirmations.rows import Reach
from hooks_app.models import ConfirmationRequest, Decision
from portal.audit import SYSTEM, Actor
from portal.lib import clock
from portal.lib.problems import Problem
from portal.models import Organization

# Rows that one sweep ends, and that one purging transaction deletes.
BATCH = 500
PURGE_BATCH = 200
Status = ConfirmationRequest.Status

log = structlog.get_logger(__name__)


def cancel(
    *, request: ConfirmationRequest, actor: Actor | None = None, reach: Reach | None = None
) -> ConfirmationRequest:
    """Withdraw a pending request: its runtime gave the call up. Cancelling again changes nothing.

    Of ``request`` nothing but its id is believed; ``reach`` is what the caller may name. Raises 404 ``not_found``, and
    409 ``already_decided`` for a request that has ended otherwise.
    """
    with transaction.atomic():
        row = rows.load(request.pk, reach)
        if transitions.end(row, Status.CANCELLED, now=clock.now(), actor=actor or rows.runtime_actor(row)):
            return row
        row = rows.load(request.pk)
        if row.status == Status.CANCELLED:
            return row
        raise Problem(409, "already_decided", f"The request has ended: {appearance.status_now(row)}.")


def settle(request: ConfirmationRequest) -> ConfirmationRequest:
    """The request as it stands now, its deadline applied.

    A vote that began in time may be committing when the deadline passes. Reading ``expired`` off the columns at that
    moment could be followed by ``approved``; this waits for such a vote, and makes the expiry real.
    """
    if request.status == Status.PENDING and appearance.status_now(request) == Status.EXPIRED:
        _expire(request)
        return rows.load(request.pk)
    return request


def sweep() -> int:
    """Expire what has run out of time, and give up on what reached nobody. Returns how many requests ended.

    Safe to run anywhere and twice at once. A row that fails is logged and does not hold up the others.
    """
    late = (
        ConfirmationRequest.objects.filter(status=Status.PENDING, expires_at__lte=clock.now())
        .order_by("expires_at")
        .values_list("pk", flat=True)[:BATCH]
    )
    ended = 0
    for request_id in list(late):
        try:
            ended += _expire(rows.load(request_id))
        except Exception:
            log.exception("confirmation.expiry_failed", confirmation=str(request_id))
    return ended + delivery.sweep()


def _expire(row: ConfirmationRequest) -> bool:
    with transaction.atomic():
        return transitions.end(row, Status.EXPIRED, now=clock.now(), actor=SYSTEM)


def purge(organization: Organization, *, before: datetime, limit: int = PURGE_BATCH) -> list[str]:
    """Delete up to ``limit`` of the organization's requests that ended before ``before``; returns their topics.

    Call it in a transaction that records it. A request that others name as their parent stays until they are gone, and
    an approval stays while it can still be used.
    """
    usable = Q(status=Status.APPROVED, consumed_at__isnull=True, start_by__gt=clock.now())
    children = ConfirmationRequest.objects.filter(parent=OuterRef("pk"))
    old = list(
        ConfirmationRequest.objects.filter(organization=organization, ended_at__lt=before)
        .exclude(usable)
        .exclude(Exists(children))
        .order_by("ended_at")
        .values_list("pk", flat=True)[:limit]
    )
    Decision.objects.filter(request__in=old).delete()
    ConfirmationRequest.objects.filter(pk__in=old).delete()
    return [rows.topic(request_id) for request_id in old]
