"""Who a card belongs to.

A delivery's topic is ``PREFIX:NAME``. The app that owns the prefix registers itself when Django starts, so that this
app needs to know nothing of what its cards are about.
"""

from typing import Protocol

from channels_app.adapters.base import Reply, Tap
from channels_app.models import Delivery, Identity


class TopicOwner(Protocol):
    """What the owner of a topic is told."""

    def tap(self, *, delivery: Delivery, tap: Tap, identity: Identity | None) -> Reply:
        """Judge an authentic tap on a card that was sent; ``identity`` is ``None`` for an account bound to nobody.

        Called inside the platform's request and inside the transaction that records the interaction, so that a
        decision and its answer are kept together or not at all. No network.
        """

    def lock(self, topic: str) -> None:
        """Lock the row that the topic is about, if there is one.

        An owner locks its own row, then (in ``deliveries.replace``) the deliveries. Whoever starts from a delivery
        calls this first, so that everybody locks in the same order.
        """

    def undelivered(self, *, delivery: Delivery) -> None:
        """Learn that a card will never reach its recipient; called in the transaction that says so."""


_owners: dict[str, TopicOwner] = {}


def register(prefix: str, owner: TopicOwner) -> None:
    """Make ``owner`` answer for topics that begin with ``prefix:``; call it from ``AppConfig.ready``."""
    _owners[prefix] = owner


def owner(topic: str) -> TopicOwner | None:
    """Who answers for ``topic``; ``None`` for a plain notice."""
    return _owners.get(topic.partition(":")[0])


def lock(topic: str) -> None:
    """Have the owner lock what the topic is about."""
    found = owner(topic)
    if found is not None:
        found.lock(topic)


def undelivered(delivery: Delivery) -> None:
    """Tell the owner."""
    found = owner(delivery.topic)
    if found is not None:
        found.undelivered(delivery=delivery)
