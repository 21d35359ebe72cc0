"""What becomes of a request whose cards can't reach anybody."""

from uuid import UUID

import structlog
from django.db import transaction

from channels_app.models import Delivery
from hooks_app.confirmations import rows, transitions
from hooks_app.models import Agent, ConfirmationRequest
from portal.audit import SYSTEM
from portal.lib import clock

# Pending requests whose deliveries one sweep looks at, those with the nearest deadline first.
SWEEP_LIMIT = 500
# A card in one of these states will not reach anybody any more.
_LOST = (Delivery.Status.FAILED, Delivery.Status.SUPERSEDED)

log = structlog.get_logger(__name__)


def mark_undeliverable(*, request_id: UUID) -> bool:
    """Look after a pending request all of whose cards have failed. Returns whether it ended.

    One that only a tap can decide becomes ``undeliverable``; any other stays pending for inbox and API. A caller that
    holds one of its deliveries must have locked the request before (``topics.lock``).
    """
    with transaction.atomic():
        locked = (
            ConfirmationRequest.objects.select_for_update(no_key=True)
            .filter(pk=request_id, status=ConfirmationRequest.Status.PENDING, mode=Agent.Mode.CHANNEL_ONLY)
            .first()
        )
        alive = Delivery.objects.filter(topic=rows.topic(request_id)).exclude(status__in=_LOST)
        if locked is None or alive.exists():
            return False
        return transitions.end(
            rows.load(request_id),
            ConfirmationRequest.Status.UNDELIVERABLE,
            now=clock.now(),
            actor=SYSTEM,
            reason="No card could be delivered, and only a tap on a card may decide.",
        )


def sweep() -> int:
    """Find the requests that no card can reach although nobody has said so, such as those of a channel without
    recipients. Returns how many ended."""
    waiting = (
        ConfirmationRequest.objects.filter(
            status=ConfirmationRequest.Status.PENDING,
            mode=Agent.Mode.CHANNEL_ONLY,
            expires_at__gt=clock.now(),
        )
        .order_by("expires_at")
        .values_list("pk", flat=True)[:SWEEP_LIMIT]
    )
    by_topic = {rows.topic(request_id): request_id for request_id in waiting}
    alive = (
        Delivery.objects.filter(topic__in=list(by_topic))
        .exclude(status__in=_LOST)
        .values_list("topic", flat=True)
    )
    ended = 0
    for topic in by_topic.keys() - set(alive):
        try:
            ended += mark_undeliverable(request_id=by_topic[topic])
        except Exception:
            log.exception("confirmation.undeliverable_failed", confirmation=str(by_topic[topic]))
    return ended
