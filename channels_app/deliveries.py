"""The outbox: cards on their way to people. The only writer of :class:`Delivery` and :class:`DeliveryAttempt`.

What must be seen is written in its owner's transaction; a poke and a sweep bring it to the platform afterwards. States:
``queued`` (nobody has it), ``sending`` (a worker is at it), ``unknown`` (it may have arrived), ``sent``, ``failed``
(it never will), ``superseded`` (it ended before anybody saw it).
"""

import secrets
import time
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import QuerySet

from channels_app import bots, buckets, circuits, outbox
from channels_app import metrics as measures
from channels_app.adapters.base import Adapter, AdapterError, Handle, Tap
from channels_app.cards import Card, hide_body
from channels_app.models import Channel, Delivery
from channels_app.outbox import Job, Status
from channels_app.pokes import poke_on_commit
from portal import audit, metrics, outages
from portal.lib import clock
from portal.lib.composed import Composed, Parameter
from portal.lib.crypto import DecryptionFailed, bearer_digest
from portal.lib.http import ForbiddenAddress
from portal.lib.problems import Problem

# One sweep takes at most so many rows and begins none after so many seconds.
SWEEP_ROWS = 500
SWEEP_SECONDS = 20.0
# A platform's own window is not used to the last second.
REPEAT_MARGIN = 120
# How long the end of a call is kept in hand while the database is away; less than the row's lease.
SETTLE_SECONDS = 30.0
# As they are shown.
_DELIVERIES = Delivery.objects.select_related("channel").order_by("created_at", "pk")
_OF_TOPIC = Composed(_DELIVERIES.filter(topic=Parameter("topic")))
_DUE = Composed(
    outbox.due(Parameter("now"))
    .select_related("channel__app", "channel__organization")
    .filter(pk=Parameter("id"))
)
# Refusals of our own, which say nothing about the platform.
NOT_ASKED = {"channel_unusable", "forbidden_address", "internal", "token_busy"}

log = structlog.get_logger(__name__)


@transaction.atomic
def enqueue(
    *, channel: Channel, topic: str, card: Card, send_before: datetime | None = None
) -> list[Delivery]:
    """Have ``card`` sent to every recipient of ``channel``; call it in the transaction of what the card is about.

    A recipient who has a card of this topic already gets none but the newer content. After ``send_before`` the first
    send is pointless and is dropped.
    """
    return [_want(channel, recipient, topic, card, send_before) for recipient in _recipients(channel)]


def _recipients(channel: Channel) -> list[str]:
    try:
        return bots.recipients(channel)
    except Problem:
        # The card must not get lost with the adapter: its row fails in the open, and the topic's owner is told.
        return ["?"]


def _want(channel: Channel, recipient: str, topic: str, card: Card, send_before: datetime | None) -> Delivery:
    now = clock.now()
    ref = secrets.token_urlsafe(18)
    content: dict[str, Any] = {
        "organization_id": channel.organization_id,
        "card": card.to_json(),
        "ref": ref,
        "ref_digest": bearer_digest(ref),
        "due_at": now,
        "send_before": send_before,
        "created_at": now,
    }
    row, new = Delivery.objects.get_or_create(
        channel=channel, recipient=recipient, topic=topic, defaults=content
    )
    if new:
        outbox.tell("delivery.queued", row, channel)
        poke_on_commit(row.pk)
    else:
        _show(Delivery.objects.select_for_update(no_key=True).get(pk=row.pk), card)
    return row


@transaction.atomic
def replace(*, topic: str, render: Callable[[Channel], Card]) -> None:
    """Show everybody who has, or may have, a card of ``topic`` the newest one. ``render`` makes it for one channel.

    A card without buttons ends its topic: rows that were never sent become superseded then. One with buttons takes the
    place of the old one in rows that are still waiting.
    """
    rows = Delivery.objects.filter(topic=topic).select_related("channel").order_by("pk")
    for row in rows.select_for_update(of=("self",), no_key=True):
        _show(row, render(row.channel))


def _show(row: Delivery, card: Card) -> None:
    if row.status == Status.SUPERSEDED or Card.from_json(row.card) == card:
        return
    row.card = card.to_json()
    row.wanted_version += 1
    if row.status == Status.QUEUED and not card.buttons:
        row.status, row.due_at = Status.SUPERSEDED, None
        metrics.count_on_commit(measures.DELIVERY_ENDS, status=str(row.status))
    elif row.status == Status.SENT:
        # A later due time is a wait that the platform asked for.
        row.due_at = row.due_at or clock.now()
        poke_on_commit(row.pk)
    row.save()


def represent(topics: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """The deliveries of each topic as the API shows them, in the order in which they were made; one query for all."""
    shown: dict[str, list[dict[str, Any]]] = {topic: [] for topic in topics}
    if len(shown) == 1:
        rows: Iterable[Delivery] = _OF_TOPIC.rows(topic=next(iter(shown)))
    else:
        rows = _DELIVERIES.filter(topic__in=list(shown))
    for row in rows:
        shown[row.topic].append(
            {
                "channel": row.channel.slug,
                "recipient": row.recipient,
                "status": row.status,
                "attempts": row.attempts,
                "last_error": row.last_error,
            }
        )
    return shown


def forget(topics: Collection[str]) -> int:
    """Delete the cards of topics whose owner keeps them no longer. Returns how many; their attempts go with them."""
    _, deleted = Delivery.objects.filter(topic__in=list(topics)).delete()
    return deleted.get("channels_app.Delivery", 0)


@transaction.atomic
def retry(delivery: Delivery, actor: audit.Actor) -> None:
    """Try again what has failed for good. Raises 409 ``not_failed`` for anything else."""
    rows = Delivery.objects.select_for_update(of=("self",), no_key=True)
    row = rows.select_related("organization").get(pk=delivery.pk)
    behind = row.status == Status.SENT and row.shown_version < row.wanted_version
    if row.status != Status.FAILED and not behind:
        raise Problem(409, "not_failed", "Only a delivery that has failed can be tried again.")
    if row.status == Status.FAILED:
        row.status = Status.QUEUED
    row.due_at = clock.now()
    row.save()
    audit.append(
        organization=row.organization, actor=actor, action="delivery.retried", kind="delivery", id=row.pk
    )
    poke_on_commit(row.pk)


def resolve(app_rows: "QuerySet[Delivery]", tap: Tap) -> Delivery | None:
    """The delivery that a tap is about, among ``app_rows`` (one app's), or ``None``.

    Found by the button's reference or, when the platform left that out, by the message. Either way message and chat
    must be the ones that we sent it to. A message whose id the platform hasn't told us yet is known by its reference
    and its chat, and gets its id from the tap.
    """
    wanted = {"ref_digest": bearer_digest(tap.ref)} if tap.ref else {"message_id": tap.message_id}
    row = app_rows.filter(**wanted).first() if tap.message_id else None
    if row is None:
        return None
    if row.message_id:
        same = row.message_id == tap.message_id and row.chat_id in {"", tap.chat_id}
        return row if same else None
    if row.status in {Status.SENDING, Status.UNKNOWN} and row.recipient == tap.chat_id:
        return _adopt(row, tap)
    return None


@transaction.atomic
def _adopt(row: Delivery, tap: Tap) -> Delivery | None:
    """The tap proves that the message arrived, and names it."""
    held = Delivery.objects.select_for_update(no_key=True).get(pk=row.pk)
    if held.message_id:
        return held if held.message_id == tap.message_id else None
    held.message_id, held.chat_id = tap.message_id, tap.chat_id
    held.handle = {"message_id": tap.message_id, "chat_id": tap.chat_id}
    if held.lease is None:
        first = held.attempt_rows.order_by("at", "pk").first()
        held.status, held.sent_at, held.last_error = Status.SENT, clock.now(), None
        held.shown_version = first.version if first else 1
        held.due_at = clock.now() if held.wanted_version > held.shown_version else None
    held.save()
    poke_on_commit(held.pk)
    return held


def deliver(delivery_id: UUID) -> bool:
    """Bring one due row to its platform. Returns whether it was called; never raises for what the platform did."""
    row = _DUE.first(id=delivery_id, now=clock.now())
    if row is None or not circuits.admits(row.channel.app):
        return False
    repeat_seconds = 0
    try:
        platform = bots.adapter_class(row.channel.type)
    except Problem:
        platform = None
    if platform is not None and issubclass(platform, Adapter):
        wait = _hold_back(row, platform)
        if wait:
            outbox.postpone(row.pk, seconds=wait)
            circuits.release(row.channel.app)
            return False
        repeat_seconds = max(platform.repeat_seconds - REPEAT_MARGIN, 0)
    job = outbox.claim(row, repeat_seconds=repeat_seconds)
    if job is None:
        circuits.release(row.channel.app)
        return False
    _perform(job, row.channel)
    return True


def _hold_back(row: Delivery, platform: type[Adapter]) -> float:
    """Take the call from its bucket: 0, or the seconds until it is this row's turn."""
    app = str(row.channel.app_id)
    if row.handle:
        bucket = (platform.update_rate, "update", app, row.message_id)
        return 0.0 if buckets.take(*bucket) else buckets.wait(*bucket)
    # Oldest first: a card is not sent in the place of an older one that is due, or whose turn comes in this window.
    bucket = (platform.send_rate, "send", app, row.recipient)
    line = outbox.line(row)
    soon = clock.now() + buckets.window(platform.send_rate)
    # A card that waits after an error has its own time, which may be long: it keeps nobody behind it.
    waiting = line.filter(last_error=None)
    first = line.filter(due_at__lte=clock.now()) | waiting.filter(due_at__lte=soon)
    if buckets.take(*bucket, behind=first.count()):
        return 0.0
    return buckets.wait(*bucket, behind=waiting.count())


def _perform(job: Job, channel: Channel) -> None:
    """Call the platform, outside any transaction, and settle the job."""
    began = time.monotonic()
    try:
        handle, hidden = _call(job, channel)
    except AdapterError as error:
        log.warning(
            "delivery_refused",
            delivery=str(job.delivery.pk),
            topic=job.delivery.topic,
            channel=channel.slug,
            code=error.code,
        )
        settle = partial(_settle_error, job, channel, error, _since(began))
    else:
        settle = partial(_settle_ok, job, channel, handle, hidden, _since(began))
    outages.persist(settle, seconds=SETTLE_SECONDS)


def _settle_error(job: Job, channel: Channel, error: AdapterError, took: int) -> None:
    outbox.settle_error(job, error, duration_ms=took)
    if error.away:
        circuits.failed(channel.app, wish=error.retry_after)
    elif error.code in NOT_ASKED:
        circuits.release(channel.app)
    else:
        circuits.worked(channel.app)


def _settle_ok(job: Job, channel: Channel, handle: Handle | None, hidden: bool, took: int) -> None:
    outbox.settle_ok(job, handle, hidden=hidden, duration_ms=took)
    circuits.worked(channel.app)


def _since(began: float) -> int:
    return int((time.monotonic() - began) * 1000)


def _call(job: Job, channel: Channel) -> tuple[Handle | None, bool]:
    reason = bots.usable(channel)
    if reason:
        raise AdapterError("channel_unusable", reason, permanent=True)
    try:
        adapter = bots.open_adapter(channel)
        if is_body_hidden(job.delivery):
            return _act(adapter, job, hide_body(job.card)), True
        try:
            return _act(adapter, job, job.card), False
        except AdapterError as error:
            if not (error.hide_body and job.card.body):
                raise
            return _act(adapter, job, hide_body(job.card)), True
    except (Problem, ForbiddenAddress, DecryptionFailed) as error:
        raise AdapterError("channel_unusable", str(error), permanent=True) from error
    except AdapterError:
        raise
    except Exception as error:
        # An adapter's own defect must not lose the card, nor its place in the queue.
        log.exception("adapter_broke", channel=channel.slug, topic=job.delivery.topic)
        raise AdapterError("internal", type(error).__name__, permanent=False, unknown=job.is_send) from error


def _act(adapter: Adapter, job: Job, card: Card) -> Handle | None:
    row = job.delivery
    if job.is_send:
        return adapter.send(row.recipient, card, row.ref, key=f"hg-{row.pk}")
    more = {name: value for name, value in row.handle.items() if name not in {"message_id", "chat_id"}}
    adapter.update(Handle(row.message_id, row.chat_id, more), card, row.ref)
    return None


def is_body_hidden(row: Delivery) -> bool:
    """Whether the platform has refused this message's body, so that its card goes without one."""
    return bool((row.handle or {}).get("body_hidden"))


def sweep() -> int:
    """Deliver whatever is due, oldest first, within one sweep's bounds. Returns how many rows were delivered."""
    give_up = time.monotonic() + SWEEP_SECONDS
    done = 0
    reachable = outbox.due(clock.now()).exclude(circuits.resting("channel__app__"))
    ids = reachable.order_by("due_at", "created_at", "pk").values_list("pk", flat=True)[:SWEEP_ROWS]
    for delivery_id in list(ids):
        if time.monotonic() > give_up:
            break
        try:
            done += deliver(delivery_id)
        except Exception:
            # One row that can't be read, or whose owner breaks, must not stop those behind it.
            log.exception("delivery_broke", delivery=str(delivery_id))
            outbox.postpone(delivery_id, seconds=outbox.LEASE)
    return done
