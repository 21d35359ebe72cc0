"""The rows of the outbox while they are being delivered: claim them, then settle them.

Used by :mod:`channels_app.outbox.dispatch` alone. A claim commits a lease and attempt rows *before* the network is
called. An attempt begins as ``unknown``, so that a worker that dies in the middle leaves the truth behind.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F, Q, QuerySet

from channels_app import condition, topics
from channels_app import metrics as measures
from channels_app.adapters.base import AdapterError, Handle
from channels_app.cards import Card
from channels_app.models import Channel, Delivery, DeliveryAttempt
from channels_app.outbox import circuits
from channels_app.outbox.pokes import poke_on_commit
from portal.lib import clock, ids, statements
from portal.lib.composed import Parameter
from portal.observe import metrics

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
# What the end of a call may change in a row.
_WRITTEN = [
    "status", "shown_version", "handle", "message_id", "chat_id", "last_error", "due_at", "sent_at", "lease",
    "lease_until",
]  # fmt: skip
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Job:
    """One claimed delivery: what to do, under which lease, and whether an earlier send may have arrived."""

    delivery: Delivery
    attempt: DeliveryAttempt
    doubt: DeliveryAttempt | None
    # The row's status before the claim.
    before: str

    @property
    def card(self) -> Card:
        """The card to show: the newest at the time of the claim."""
        return Card.from_json(self.delivery.card)

    @property
    def is_send(self) -> bool:
        """A first send; otherwise an update of a message that is there."""
        return self.attempt.kind == "send"


@dataclass(frozen=True)
class Sent:
    """A call that the platform took; ``hidden`` says that the card went without its body. No handle: an update."""

    job: Job
    handle: Handle | None
    hidden: bool
    duration_ms: int


@dataclass(frozen=True)
class Failed:
    """A call that the platform refused, or that did not reach it."""

    job: Job
    error: AdapterError
    duration_ms: int


@dataclass(frozen=True)
class Waiting:
    """A card that waits to be sent: since when, until when, and whether an error put it off."""

    created_at: datetime
    due_at: datetime
    last_error: str | None


# By app and recipient.
Lines = Mapping[tuple[UUID, str], Sequence[Waiting]]


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


def lines(rows: Sequence[Delivery]) -> Lines:
    """Of the recipients of those rows that are still to be sent: who waits for the same app to send to them, leased by
    nobody alive; one query for all."""
    firsts = [row for row in rows if not row.handle]
    found: dict[tuple[UUID, str], list[Waiting]] = {}
    if not firsts:
        return found
    free = Q(lease_until__isnull=True) | Q(lease_until__lte=clock.now())
    waiting = Delivery.objects.filter(
        free,
        recipient__in={row.recipient for row in firsts},
        created_at__lt=max(row.created_at for row in firsts),
        channel__app__in={row.channel.app_id for row in firsts},
        due_at__isnull=False,
        handle__isnull=True,
    )
    for app, recipient, created_at, due_at, last_error in waiting.values_list(
        "channel__app", "recipient", "created_at", "due_at", "last_error"
    ):
        assert due_at is not None
        found.setdefault((app, recipient), []).append(Waiting(created_at, due_at, last_error))
    return found


@transaction.atomic
def claim(wanted: Sequence[tuple[Delivery, float]]) -> list[Job]:
    """Lease due rows, as they were read just now, for this worker; those for which nothing is left to do are ended.

    A row that somebody else has taken or changed since is left to whom its next poke reaches. The number says for how
    many seconds after a doubtful send the platform recognizes the same key.
    """
    now = clock.now()
    # In the order in which owners lock them too.
    free = due(now).filter(pk__in=[row.pk for row, _ in wanted]).order_by("pk").select_for_update(no_key=True)
    found = {pk: seen for pk, *seen in free.values_list("pk", "attempts", "wanted_version", "message_id")}
    jobs = []
    for row, repeat_seconds in wanted:
        if found.get(row.pk) == [row.attempts, row.wanted_version, row.message_id]:
            job = _begin(row, now, repeat_seconds)
            jobs += [job] if job else []
        elif row.pk in found:
            poke_on_commit(row.pk)
    _lease(jobs, now)
    return jobs


def _begin(row: Delivery, now: datetime, repeat_seconds: float) -> Job | None:
    """What is to be done for a row that is locked; ``None`` when that is nothing any more."""
    kind = "update" if row.handle else "send"
    doubt = _doubt(row) if kind == "send" and row.attempts else None
    before = row.status
    if not _still_wanted(row, doubt, now, repeat_seconds):
        Delivery.objects.filter(pk=row.pk).update(
            status=row.status, last_error=row.last_error, due_at=None, lease=None, lease_until=None
        )
        if kind == "send":
            metrics.count_on_commit(measures.DELIVERY_ENDS, status=str(row.status))
        return None
    attempt = DeliveryAttempt(
        delivery=row, at=now, kind=kind, version=row.wanted_version, result=Result.UNKNOWN, duration_ms=0
    )
    return Job(row, attempt, doubt, before)


def _lease(jobs: Sequence[Job], now: datetime) -> None:
    lease, until = ids.new(), now + timedelta(seconds=LEASE)
    for job in jobs:
        job.delivery.lease, job.delivery.lease_until = lease, until
        job.delivery.attempts += 1
        if job.is_send:
            job.delivery.status = Status.SENDING
    for is_send in {job.is_send for job in jobs}:
        of_kind = Delivery.objects.filter(pk__in=[job.delivery.pk for job in jobs if job.is_send == is_send])
        status = {"status": Status.SENDING} if is_send else {}
        of_kind.update(lease=lease, lease_until=until, attempts=F("attempts") + 1, **status)
    DeliveryAttempt.objects.bulk_create([job.attempt for job in jobs])


@transaction.atomic
def give_back(jobs: Sequence[Job]) -> None:
    """These calls have not begun: as if they had never been claimed."""
    for job, row in _held(jobs, Delivery.objects.all()):
        row.attempts -= 1
        row.lease = row.lease_until = None
        if job.is_send:
            row.status = job.before
        if row.status == Status.QUEUED and _ended_since(job, row):
            row.status, row.due_at = Status.SUPERSEDED, None
            metrics.count_on_commit(measures.DELIVERY_ENDS, status=str(row.status))
        row.save()
        job.attempt.delete()
        if row.due_at is not None:
            poke_on_commit(row.pk)


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


def settle_ok(sent: Sequence[Sent]) -> None:
    """Record that the platforms have taken these cards."""
    now = clock.now()
    calls = {one.job.delivery.pk: one for one in sent}
    with transaction.atomic():
        held = _held([one.job for one in sent])
        for job, row in held:
            _note_sent(calls[row.pk], row, now)
            _finish(job, row, Result.OK, calls[row.pk].duration_ms)
        statements.write([row for _, row in held], _WRITTEN)
        statements.write([job.attempt for job, _ in held], ["result", "duration_ms"])
        channels = {row.channel_id: job.delivery.channel for job, row in held}
        # Once, and not with every card: the row is shared by all workers.
        news = [pk for pk, row in channels.items() if row.last_error or row.worked_at is None]
        if news:
            condition.worked(news)


def _note_sent(one: Sent, row: Delivery, now: datetime) -> None:
    job = one.job
    if row.sent_at is None:
        metrics.observe_on_commit(measures.DELIVERY_WAIT_SECONDS, (now - row.created_at).total_seconds())
    if one.handle is not None:
        row.message_id, row.chat_id = one.handle.message_id, one.handle.chat_id
        row.handle = {"message_id": row.message_id, "chat_id": row.chat_id, **one.handle.more}
    row.handle = {**row.handle, "body_hidden": one.hidden}
    row.sent_at = row.sent_at or now
    row.status = Status.SENT
    # With the same key a platform keeps what came first: after a doubtful send the oldest card may be what shows.
    row.shown_version = job.doubt.version if job.doubt else job.attempt.version
    row.last_error = None
    row.due_at = now if row.wanted_version > row.shown_version else None
    event = f"delivery.{'sent' if job.is_send else 'updated'}"
    tell(event, row, job.delivery.channel, milliseconds=one.duration_ms)


def settle_error(failed: Failed) -> None:
    """Record that the platform refused or could not be reached, and decide when to try again, if at all."""
    job, error = failed.job, failed.error
    hopeless = error.permanent or _is_given_up(job, error)
    with transaction.atomic():
        if hopeless:
            # The owner locks its own row before its deliveries; the other order here would be a deadlock.
            topics.lock(job.delivery.topic)
        for _, row in _held([job]):
            row.last_error = f"{error.code}: {error.message}"[:500]
            row.due_at = None if hopeless else clock.now() + timedelta(seconds=_wait(job, error))
            result = (
                _after_send(job, row, error, hopeless) if job.is_send else _after_update(job, row, hopeless)
            )
            job.attempt.code, job.attempt.message = error.code[:64], error.message[:500]
            _finish(job, row, result, failed.duration_ms)
            row.save()
            job.attempt.save(update_fields=["result", "duration_ms", "code", "message"])
            if row.status == Status.FAILED:
                topics.undelivered(row)
            if hopeless:
                # Last, like everywhere: whoever holds a channel's row asks for no delivery any more.
                condition.failed(row.channel_id, row.last_error)


def _after_send(job: Job, row: Delivery, error: AdapterError, hopeless: bool) -> str:
    doubtful = error.unknown or job.doubt is not None
    if doubtful:
        row.status = Status.UNKNOWN
    elif hopeless:
        row.status = Status.FAILED
    elif _ended_since(job, row):
        row.status, row.due_at = Status.SUPERSEDED, None
    else:
        row.status = Status.QUEUED
    if error.unknown:
        return Result.UNKNOWN
    return Result.FAILED if hopeless else Result.RETRY


def _ended_since(job: Job, row: Delivery) -> bool:
    """Whether what the card is about ended since the claim: nobody needs to hear the end of what they never saw."""
    return row.wanted_version > job.attempt.version and not Card.from_json(row.card).buttons


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


def _held(jobs: Sequence[Job], rows: "QuerySet[Delivery] | None" = None) -> list[tuple[Job, Delivery]]:
    """The rows of these jobs, locked, without those whose lease somebody else has taken over."""
    # What is encrypted is neither read nor written again.
    rows = Delivery.objects.defer("card", "ref") if rows is None else rows
    mine = {job.delivery.pk: job for job in jobs}
    locked = rows.filter(pk__in=mine).order_by("pk").select_for_update(no_key=True)
    held = [(mine[row.pk], row) for row in locked if row.lease == mine[row.pk].delivery.lease]
    for lost in mine.keys() - {row.pk for _, row in held}:
        log.warning("delivery.lease_lost", delivery=str(lost))
    return held


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


def _finish(job: Job, row: Delivery, result: str, duration_ms: int) -> None:
    """Words and counts that every end of a call has; the caller saves row and attempt."""
    row.lease = row.lease_until = None
    metrics.count_on_commit(measures.DELIVERY_ATTEMPTS, kind=job.attempt.kind, result=str(result))
    metrics.observe_on_commit(measures.DELIVERY_SECONDS, duration_ms / 1000, kind=job.attempt.kind)
    if job.is_send and row.status in (Status.SENT, Status.FAILED, Status.SUPERSEDED):
        metrics.count_on_commit(measures.DELIVERY_ENDS, status=str(row.status))
    job.attempt.result = result
    job.attempt.duration_ms = duration_ms
    if row.due_at is not None and row.due_at <= clock.now():
        poke_on_commit(row.pk)
