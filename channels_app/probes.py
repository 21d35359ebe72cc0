"""Test messages: a card with one button, to see that a channel works in both directions."""

from django.utils import translation
from django.utils.translation import gettext as _

from channels_app.adapters.base import Reply, Tap
from channels_app.cards import Button, Card, Tone
from channels_app.models import Channel, Delivery, Identity
from channels_app.outbox import deliveries
from portal.lib import ids

PREFIX = "probe"


def send_test(channel: Channel) -> list[Delivery]:
    """Send a test message through the outbox; what becomes of it is in the returned rows' ``status``."""
    with translation.override(channel.language):
        button = Button(key="ok", label=_("It works"), style="primary")
        card = Card(
            title=_("Test message"),
            tone=Tone.NOTICE,
            summary=_("Test message"),
            body=_("Tap the button to check that taps reach Hookgate."),
            buttons=(button,),
        )
    return deliveries.enqueue(channel=channel, topic=f"{PREFIX}:{ids.new()}", card=card)


class Probes:
    """The owner of the test messages' topics."""

    def tap(self, *, delivery: Delivery, tap: Tap, identity: Identity | None) -> Reply:
        """Say that the tap has arrived, and as whom."""
        who = identity.user.username if identity else tap.external_id
        with translation.override(delivery.channel.language):
            card = Card(
                title=_("Test message"),
                tone=Tone.APPROVED,
                summary=_("The tap has arrived."),
                body=_("The tap of %(who)s has arrived.") % {"who": who},
            )
            text = _("The tap has arrived.")
        deliveries.replace(topic=delivery.topic, render=lambda channel: card)
        return Reply(text, ok=True, card=card)

    def lock(self, topic: str) -> None:
        """Nothing stands behind a test message."""

    def undelivered(self, *, delivery: Delivery) -> None:
        """The row itself says why; the page of the channel shows it."""
