"""The rows of the outbox while they are being delivered: claim one, then settle it.

Used by :mod:`channels_app.deliveries` alone. A claim commits a lease and an attempt row *before* the network is called.
The attempt begins as ``unknown``, so that a worker that dies in the middle leaves the truth behind.
"""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet

from channels_app import circuits, topics
from channels_app import metrics as measures
from channels_app.adapters.base import AdapterError, Handle
from channels_app.cards import Card
from channels_app.models import Channel, Delivery, DeliveryAttempt
from channels_app.pokes import poke_on_commit
from portal import metrics
from portal.lib import clock, ids
from portal.lib.composed import Parameter

# Seconds. A delivery makes at most five calls of ten seconds and may wait for another worker's token.
LEASE = 90.0
BACKOFF_BASE = 1.0
BACKOFF_CAP = 300.0
# A platform may ask for more patience than our cap, but not for ever.
LONGEST_WAIT = 3600.0
# About a day at the cap.
MOST_TRIES = 300
# A platform that is away is tried more often, for a day.
LONGEST_AWAY = timedelta(days=1)

Status = Delivery.Status
Result = DeliveryAttempt.Result
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Job:
    """One claimed delivery: what to do, under which lease, and whether an earlier send may have arrived."""

    delivery: Delivery
    attempt: DeliveryAttempt
    lease: UUID
    doubt: DeliveryAttempt | None

    @property
    def card(self) -> Card:
        """The card to show: the newest at the time of the claim."""
        return Card.from_json(self.delivery.card)

    @property
    def is_send(self) -> bool:
        """A first send; otherwise an update of a message that is there."""
        return self.attempt.kind == "send"


def due(now: datetime | Parameter) -> "QuerySet[Delivery]":
    """Rows that somebody should deliver now: due, and leased by nobody alive."""
    free = Q(lease_until__isnull=True) | Q(lease_until__lte=now)
    return Delivery.objects.filter(free, due_at__lte=now)


@transaction.atomic
def postpone(delivery_id: UUID, *, seconds: float) -> None:
    """Move a row that nobody holds to a later time, and have it looked at then."""
    now = clock.now()
    if due(now).filter(pk=delivery_id).update(due_at=now + timedelta(seconds=seconds)):
        poke_on_commit(delivery_id, seconds=seconds)


def line(row: Delivery) -> "QuerySet[Delivery]":
    """The older cards for the same recipient from the same app that wait to be sent, due now or at a given time."""
    free = Q(lease_until__isnull=True) | Q(lease_until__lte=clock.now())
    return Delivery.objects.filter(
        free,
        recipient=row.recipient,
        created_at__lt=row.created_at,
        channel__app=row.channel.app_id,
        due_at__isnull=False,
        handle__isnull=True,
    )


@transaction.atomic
def claim(row: Delivery, *, repeat_seconds: float) -> Job | None:
    """Lease a due row, as it was read just now, for this worker; ``None`` when there is nothing to do for it any more.

    One conditional UPDATE: a row that somebody else has taken or changed since is left to whom its next poke reaches.
    ``repeat_seconds`` says how long after a doubtful send the platform recognizes the same key.
    """
    now = clock.now()
    same = due(now).filter(
        pk=row.pk, attempts=row.attempts, wanted_version=row.wanted_version, message_id=row.message_id
    )
    kind = "update" if row.handle else "send"
    doubt = _doubt(row) if kind == "send" and row.attempts else None
    if not _still_wanted(row, doubt, now, repeat_seconds):
        ended = same.update(
            status=row.status, last_error=row.last_error, due_at=None, lease=None, lease_until=None
        )
        if ended and kind == "send":
            metrics.count_on_commit(measures.DELIVERY_ENDS, status=str(row.status))
        return None
    row.lease, row.lease_until = ids.new(), now + timedelta(seconds=LEASE)
    row.attempts += 1
    if kind == "send":
        row.status = Status.SENDING
    leased = same.update(
        lease=row.lease, lease_until=row.lease_until, attempts=row.attempts, status=row.status
    )
    if not leased:
        if due(now).filter(pk=row.pk).exists():
            poke_on_commit(row.pk)
        return None
    attempt = DeliveryAttempt.objects.create(
        delivery=row, at=now, kind=kind, version=row.wanted_version, result=Result.UNKNOWN, duration_ms=0
    )
    return Job(row, attempt, row.lease, doubt)


def _doubt(row: Delivery) -> DeliveryAttempt | None:
    """The first send whose end nobody knows."""
    return row.attempt_rows.filter(kind="send", result=Result.UNKNOWN).order_by("at", "pk").first()


def _still_wanted(row: Delivery, doubt: DeliveryAttempt | None, now: datetime, repeat_seconds: float) -> bool:
    """Whether a call is still right; sets the row's final words when it is not."""
    if row.handle:
        return row.wanted_version > row.shown_version
    if doubt is None and row.send_before and row.send_before <= now:
        row.status = Status.SUPERSEDED
        return False
    if doubt is not None and now >= doubt.at + timedelta(seconds=repeat_seconds):
        row.status = Status.UNKNOWN
        row.last_error = "unknown: the platform never said whether the message arrived; not sent again"
        return False
    return True


def settle_ok(job: Job, handle: Handle | None, *, hidden: bool, duration_ms: int) -> None:
    """Record that the platform has taken the card; ``hidden`` says that it went without its body."""
    now = clock.now()
    with transaction.atomic():
        row = _held(job)
        if row is None:
            return
        if row.sent_at is None:
            metrics.observe_on_commit(measures.DELIVERY_WAIT_SECONDS, (now - row.created_at).total_seconds())
        if handle is not None:
            row.message_id, row.chat_id = handle.message_id, handle.chat_id
            row.handle = {"message_id": handle.message_id, "chat_id": handle.chat_id, **handle.more}
        row.handle = {**row.handle, "body_hidden": hidden}
        row.sent_at = row.sent_at or now
        row.status = Status.SENT
        # With the same key a platform keeps what came first: after a doubtful send the oldest card may be what shows.
        row.shown_version = job.doubt.version if job.doubt else job.attempt.version
        row.last_error = None
        row.due_at = now if row.wanted_version > row.shown_version else None
        _finish(job, row, Result.OK, None, duration_ms)
        tell(
            f"delivery.{'sent' if job.is_send else 'updated'}",
            row,
            job.delivery.channel,
            milliseconds=duration_ms,
        )
        if job.delivery.channel.last_error:
            Channel.objects.filter(pk=row.channel_id).update(last_error="", last_error_at=None)


def settle_error(job: Job, error: AdapterError, *, duration_ms: int) -> None:
    """Record that the platform refused or could not be reached, and decide when to try again, if at all."""
    hopeless = error.permanent or _is_given_up(job, error)
    with transaction.atomic():
        if hopeless:
            # The owner locks its own row before its deliveries; the other order here would be a deadlock.
            topics.lock(job.delivery.topic)
        row = _held(job)
        if row is None:
            return
        row.last_error = f"{error.code}: {error.message}"[:500]
        row.due_at = None if hopeless else clock.now() + timedelta(seconds=_wait(job, error))
        result = _after_send(job, row, error, hopeless) if job.is_send else _after_update(job, row, hopeless)
        _finish(job, row, result, error, duration_ms)
        if row.status == Status.FAILED:
            topics.undelivered(row)
        if hopeless:
            # Last, like everywhere: whoever holds a channel's row asks for no delivery any more.
            Channel.objects.filter(pk=row.channel_id).update(
                last_error=row.last_error, last_error_at=clock.now()
            )


def _after_send(job: Job, row: Delivery, error: AdapterError, hopeless: bool) -> str:
    doubtful = error.unknown or job.doubt is not None
    if doubtful:
        row.status = Status.UNKNOWN
    elif hopeless:
        row.status = Status.FAILED
    elif row.wanted_version > job.attempt.version and not Card.from_json(row.card).buttons:
        # It ended while we tried; nobody needs to hear the end of what they never saw.
        row.status, row.due_at = Status.SUPERSEDED, None
    else:
        row.status = Status.QUEUED
    if error.unknown:
        return Result.UNKNOWN
    return Result.FAILED if hopeless else Result.RETRY


def _after_update(job: Job, row: Delivery, hopeless: bool) -> str:
    row.status = Status.SENT
    if hopeless and row.wanted_version > job.attempt.version:
        row.due_at = clock.now()
    return Result.FAILED if hopeless else Result.RETRY


def _wait(job: Job, error: AdapterError) -> float:
    """Seconds until the next try: the platform's wish, else exponential with jitter."""
    if error.retry_after is not None:
        return min(max(error.retry_after, 0.0), LONGEST_WAIT)
    # The circuit paces the calls to a platform that is away; its return must not find the card asleep.
    cap = circuits.LONGEST if error.away else BACKOFF_CAP
    longest: float = min(BACKOFF_BASE * 2 ** min(_tries(job) - 1, 20), cap)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, guards nothing


def _tries(job: Job) -> int:
    return _same(job).count()


def _same(job: Job) -> "QuerySet[DeliveryAttempt]":
    return job.delivery.attempt_rows.filter(kind=job.attempt.kind, version=job.attempt.version)


def _is_given_up(job: Job, error: AdapterError) -> bool:
    if not error.away:
        return _tries(job) >= MOST_TRIES
    first = _same(job).order_by("at").values_list("at", flat=True).first()
    return first is not None and clock.now() - first >= LONGEST_AWAY


def _held(job: Job) -> Delivery | None:
    # What is encrypted is neither read nor written again.
    rows = Delivery.objects.defer("card", "ref").select_for_update(no_key=True)
    row = rows.filter(pk=job.delivery.pk, lease=job.lease).first()
    if row is None:
        log.warning("delivery_lease_lost", delivery=str(job.delivery.pk))
    return row


def tell(event: str, row: Delivery, channel: Channel, **more: Any) -> None:
    """Log what happened to a card, once it is committed."""
    facts = {
        "delivery": str(row.pk),
        "topic": row.topic,
        "channel": channel.slug,
        "organization": channel.organization.slug,
        **more,
    }
    transaction.on_commit(lambda: log.info(event, **facts), robust=True)


def _finish(job: Job, row: Delivery, result: str, error: AdapterError | None, duration_ms: int) -> None:
    row.lease = row.lease_until = None
    row.save()
    metrics.count_on_commit(measures.DELIVERY_ATTEMPTS, kind=job.attempt.kind, result=str(result))
    metrics.observe_on_commit(measures.DELIVERY_SECONDS, duration_ms / 1000, kind=job.attempt.kind)
    if job.is_send and row.status in (Status.SENT, Status.FAILED, Status.SUPERSEDED):
        metrics.count_on_commit(measures.DELIVERY_ENDS, status=str(row.status))
    job.attempt.result = result
    job.attempt.duration_ms = duration_ms
    if error is not None:
        job.attempt.code, job.attempt.message = error.code[:64], error.message[:500]
    job.attempt.save(update_fields=["result", "duration_ms", "code", "message"])
    if row.due_at is not None and row.due_at <= clock.now():
        poke_on_commit(row.pk)
