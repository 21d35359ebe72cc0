"""The outbox: cards on their way to people. The only writer of :class:`Delivery` and :class:`DeliveryAttempt`.

What must be seen is written in its owner's transaction; a poke and a sweep bring it to the platform afterwards. States:
``queued`` (nobody has it), ``sending`` (a worker is at it), ``unknown`` (it may have arrived), ``sent``, ``failed``
(it never will), ``superseded`` (it ended before anybody saw it).
"""

import secrets
import time
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import QuerySet
from typing_extensions import TypedDict

from channels_app import bots
from channels_app import metrics as measures
from channels_app.adapters.base import Tap
from channels_app.cards import Card
from channels_app.models import Channel, Delivery
from channels_app.outbox import circuits, claims, dispatch
from channels_app.outbox.claims import Status
from channels_app.outbox.pokes import poke_on_commit
from portal import audit
from portal.lib import clock
from portal.lib.composed import Composed, Parameter
from portal.lib.crypto import bearer_digest
from portal.lib.json_types import one_of
from portal.lib.problems import Problem
from portal.observe import metrics, outages

# One sweep takes at most so many rows and begins none after so many seconds.
SWEEP_ROWS = 500
SWEEP_SECONDS = 20.0
# As they are shown.
# What is told of a delivery: its card and its channel's secrets are decrypted for nobody who only asks how it fares.
_DELIVERIES = (
    Delivery.objects.select_related("channel")
    .only("topic", "recipient", "status", "attempts", "last_error", "created_at", "channel__slug")
    .order_by("created_at", "pk")
)
_OF_TOPIC = Composed(_DELIVERIES.filter(topic=Parameter("topic")))

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


@transaction.atomic(savepoint=False)
def open_topic(
    *, topic: str, cards: Iterable[tuple[Channel, Card]], send_before: datetime | None = None
) -> list[Delivery]:
    """As :func:`enqueue` for the first cards of a topic that nobody has a card of, through any number of channels: one
    statement for all."""
    made = [
        (
            channel,
            Delivery(
                channel=channel, recipient=recipient, topic=topic, **_content(channel, card, send_before)
            ),
        )
        for channel, card in cards
        for recipient in _recipients(channel)
    ]
    Delivery.objects.bulk_create([row for _, row in made])
    for channel, row in made:
        claims.tell("delivery.queued", row, channel)
        poke_on_commit(row.pk)
    return [row for _, row in made]


def _recipients(channel: Channel) -> list[str]:
    try:
        return bots.recipients(channel)
    except Problem:
        # The card must not get lost with the adapter: its row fails in the open, and the topic's owner is told.
        return ["?"]


def _want(channel: Channel, recipient: str, topic: str, card: Card, send_before: datetime | None) -> Delivery:
    content = _content(channel, card, send_before)
    row, new = Delivery.objects.get_or_create(
        channel=channel, recipient=recipient, topic=topic, defaults=content
    )
    if new:
        claims.tell("delivery.queued", row, channel)
        poke_on_commit(row.pk)
    else:
        _show(Delivery.objects.select_for_update(no_key=True).get(pk=row.pk), card)
    return row


def _content(channel: Channel, card: Card, send_before: datetime | None) -> dict[str, Any]:
    """The columns of a delivery that nobody has tried yet."""
    now = clock.now()
    ref = secrets.token_urlsafe(18)
    return {
        "organization_id": channel.organization_id,
        "card": card.to_json(),
        "ref": ref,
        "ref_digest": bearer_digest(ref),
        "due_at": now,
        "send_before": send_before,
        "created_at": now,
    }


@transaction.atomic(savepoint=False)
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


class DeliveryEntry(TypedDict):
    """One card and how far it got."""

    channel: str
    recipient: str
    status: Annotated[str, one_of(Status.values)]
    attempts: int
    last_error: str | None


def represent(topics: Collection[str]) -> dict[str, list[DeliveryEntry]]:
    """The deliveries of each topic as the API shows them, in the order in which they were made; one query for all."""
    shown: dict[str, list[DeliveryEntry]] = {topic: [] for topic in topics}
    if len(shown) == 1:
        rows: Iterable[Delivery] = _OF_TOPIC.rows(topic=next(iter(shown)))
    else:
        rows = _DELIVERIES.filter(topic__in=list(shown))
    for row in rows:
        shown[row.topic].append(represent_one(row))
    return shown


def represent_one(row: Delivery) -> DeliveryEntry:
    """One delivery as the API shows it."""
    return {
        "channel": row.channel.slug,
        "recipient": row.recipient,
        "status": row.status,
        "attempts": row.attempts,
        "last_error": row.last_error,
    }


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


def deliver(ids: Collection[UUID]) -> int:
    """Bring those of the rows that are due to their platforms. Returns how many calls were made."""
    if len(ids) > 1:
        try:
            return dispatch.bring(ids)
        except Exception as error:
            if outages.note(error):
                return 0
            log.exception("batch.broke", rows=len(ids))
    return sum(_deliver_alone(delivery_id) for delivery_id in ids)


def _deliver_alone(delivery_id: UUID) -> int:
    """One row that can't be read, or whose owner breaks, must not stop the others.

    While the database is away it is not the row's fault: it stays due, for the first sweep that comes through.
    """
    try:
        return dispatch.bring([delivery_id])
    except Exception as error:
        if outages.note(error):
            return 0
        log.exception("delivery.broke", delivery=str(delivery_id))
        claims.postpone(delivery_id, seconds=claims.LEASE)
        return 0


def sweep() -> int:
    """Deliver whatever is due, oldest first, within one sweep's bounds. Returns how many calls were made."""
    give_up = time.monotonic() + SWEEP_SECONDS
    done = 0
    reachable = claims.due(clock.now()).exclude(circuits.resting("channel__app__"))
    ids = list(reachable.order_by("due_at", "created_at", "pk").values_list("pk", flat=True)[:SWEEP_ROWS])
    for start in range(0, len(ids), dispatch.BATCH):
        if time.monotonic() > give_up:
            break
        done += deliver(ids[start : start + dispatch.BATCH])
    return done
