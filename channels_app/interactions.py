"""From an authentic tap to its answer: dedupe, find the card, dispatch to the card's owner.

One transaction holds the interaction's row, the owner's decision and the stored answer. A second copy of the same event
waits for the first at the unique event id and is given the stored answer.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from django.db import IntegrityError, transaction
from django.utils import translation
from django.utils.translation import gettext as _

from channels_app import identities, topics
from channels_app import metrics as measures
from channels_app.adapters.base import Adapter, Answer, CallbackRefused, Reply, Tap
from channels_app.cards import Card, hide_body
from channels_app.models import App, Channel, Delivery, Interaction
from channels_app.outbox import deliveries
from portal.lib import clock
from portal.lib.crypto import same
from portal.observe import metrics

CALLBACK_SECONDS = 10

log = structlog.get_logger(__name__)


def handle(channel: Channel, adapter: Adapter, tap: Tap) -> Answer:
    """Answer one authentic tap that arrived at ``channel``'s address.

    Always an answer of 200 in the platform's form, also when nothing changes. Raises :class:`CallbackRefused` (403) for
    a tap of another tenant than the app's.
    """
    app = channel.app
    if app.tenant_key and tap.tenant_key and not same(app.tenant_key, tap.tenant_key):
        raise CallbackRefused(403, "wrong_tenant", "the callback is for another tenant")
    with translation.override(channel.language):
        try:
            return _answer(channel, adapter, tap)
        except Exception:
            # The platform is told in its own form, and nothing is kept: the next tap may succeed.
            log.exception("interaction.failed", channel=channel.slug)
            return _failed(adapter)


def _answer(channel: Channel, adapter: Adapter, tap: Tap) -> Answer:
    """The answer to the first copy of an event, or that same answer again."""
    app = channel.app
    delivery = deliveries.resolve(
        Delivery.objects.filter(channel__app=app, organization_id=app.organization_id).select_related(
            "channel__app", "channel__organization", "organization"
        ),
        tap,
    )
    with translation.override(delivery.channel.language if delivery else channel.language):
        try:
            return _once(channel, adapter, tap, delivery)
        except IntegrityError:
            stored = _stored(app, tap)
            if stored is None:
                raise
            metrics.count(measures.TAPS, result="repeated")
            return stored


def forget(topics: Collection[str]) -> int:
    """Delete the taps on the cards of ``topics``, with the answers they were given. Returns how many."""
    return Interaction.objects.filter(delivery__topic__in=list(topics)).delete()[0]


def _stored(app: App, tap: Tap) -> Answer | None:
    """The answer that the same event was given before."""
    row = Interaction.objects.filter(app=app, event_id=tap.event_id).first()
    return Answer(200, row.answer["body"].encode("utf-8")) if row and row.answer else None


def _failed(adapter: Adapter) -> Answer:
    metrics.count(measures.TAPS, result="failed")
    return adapter.answer(
        Reply(_("Something went wrong and nothing was recorded. Tap again, or use the inbox."), ok=False)
    )


@transaction.atomic
def _once(channel: Channel, adapter: Adapter, tap: Tap, delivery: Delivery | None) -> Answer:
    row = Interaction.objects.create(
        organization_id=channel.organization_id,
        app=channel.app,
        channel=channel,
        event_id=tap.event_id,
        external_id=tap.external_id,
        delivery=delivery,
        action=tap.action,
        received_at=clock.now(),
    )
    reply, row.result = _dispatch(adapter, tap, delivery)
    if delivery:
        hidden = reply.card is not None and delivery.body_hidden
        card = hide_body(reply.card) if reply.card and hidden else reply.card
        reply = replace(reply, card=card, ref=delivery.ref)
    answer = adapter.answer(reply)
    row.answer = {"body": answer.body.decode("utf-8")}
    row.save(update_fields=["result", "answer"])
    _note_callback(channel.app, row.received_at, tap.tenant_key if delivery else "")
    _tell(channel, tap, row)
    return answer


def _note_callback(app: App, now: datetime, tenant_key: str) -> None:
    """Keep when the app last called, to ``CALLBACK_SECONDS``: every tap of a busy app would write the same row."""
    noted = app.last_callback_at
    learned = {"tenant_key": tenant_key} if tenant_key and not app.tenant_key else {}
    if learned or noted is None or now - noted >= timedelta(seconds=CALLBACK_SECONDS):
        App.objects.filter(pk=app.pk).update(last_callback_at=now, **learned)


def _tell(channel: Channel, tap: Tap, row: Interaction) -> None:
    """Note what became of a tap. In its transaction: its line stands before those of what it changed."""
    topic = row.delivery.topic if row.delivery else None
    delivery = str(row.delivery.pk) if row.delivery else None
    log.info(
        "interaction.judged",
        channel=channel.slug,
        organization=channel.organization.slug,
        delivery=delivery,
        topic=topic,
        action=tap.action,
        result=row.result,
    )
    metrics.count_on_commit(measures.TAPS, result=row.result)


def _dispatch(adapter: Adapter, tap: Tap, delivery: Delivery | None) -> tuple[Reply, str]:
    """Let the card's owner judge. Returns the reply and what became of the tap in one word."""
    owner = topics.owner(delivery.topic) if delivery else None
    if delivery is None or owner is None:
        return Reply(_("This card is not one that can be answered here."), ok=False), "unknown_card"
    if not delivery.channel.enabled:
        return Reply(_("This channel is switched off."), ok=False), "channel_off"
    if not _shows(adapter, delivery, tap.action):
        return Reply(_("This button is not on the card."), ok=False), "unknown_button"
    identity = identities.find(delivery.channel.app, tap.external_id)
    reply = owner.tap(delivery=delivery, tap=tap, identity=identity)
    return reply, "accepted" if reply.ok else "refused"


def _shows(adapter: Adapter, delivery: Delivery, action: str) -> bool:
    """Whether the card as shown has that button. One that has none has ended, which its owner explains."""
    card = Card.from_json(delivery.card)
    shown = adapter.fit(hide_body(card) if delivery.body_hidden else card)
    return not card.buttons or any(button.key == action for button in shown.buttons)
