"""What this app counts, and what it adds to ``/metrics`` from the database."""

from collections.abc import Iterator

from django.db.models import Count
from prometheus_client.core import Metric

from channels_app import health
from channels_app.models import Delivery, DeliveryAttempt
from portal.observe import metrics

KINDS = ["send", "update"]
ENDS = [Delivery.Status.SENT, Delivery.Status.FAILED, Delivery.Status.UNKNOWN, Delivery.Status.SUPERSEDED]

DELIVERY_ATTEMPTS = metrics.counter(
    "delivery_attempts", "Calls to platforms, by result.", kind=KINDS, result=DeliveryAttempt.Result.values
)
DELIVERY_SECONDS = metrics.histogram(
    "delivery_seconds",
    "Seconds that a platform took for one card, its answer included.",
    metrics.FAST,
    kind=KINDS,
)
DELIVERY_WAIT_SECONDS = metrics.histogram(
    "delivery_wait_seconds", "Seconds from the wish to send a card until its platform had it.", metrics.SLOW
)
DELIVERY_ENDS = metrics.counter(
    "delivery_ends", "First sends that came to an end, by which.", status=[str(end) for end in ENDS]
)
TAPS = metrics.counter(
    "taps",
    "Authentic taps, by what became of them.",
    result=["accepted", "refused", "repeated", "failed", "unknown_card", "unknown_button", "channel_off"],
)
POKES = metrics.counter(
    "pokes",
    "Messages to the broker about due deliveries, up to 40 in each; the sweep finds the others.",
    result=["ok", "failed", "left_out"],
)
OLDEST_DUE = metrics.reading(
    "oldest_due_delivery_seconds", "Seconds for which the oldest due delivery has been due."
)
OPEN = metrics.reading(
    "deliveries",
    "Deliveries that are still to be made; `sent` are those that wait for a newer card.",
    "status",
)


def read() -> Iterator[Metric]:
    """Deliveries that are still to be made, by status, and the age of the oldest: both read one partial index."""
    oldest = OLDEST_DUE.family()
    oldest.add_metric([], health.oldest_due().total_seconds())
    yield oldest
    deliveries = OPEN.family()
    still = [Delivery.Status.QUEUED, Delivery.Status.SENDING, Delivery.Status.UNKNOWN, Delivery.Status.SENT]
    rows = (
        Delivery.objects.filter(due_at__isnull=False).order_by().values_list("status").annotate(Count("pk"))
    )
    for status, number in (dict.fromkeys(map(str, still), 0) | dict(rows)).items():
        deliveries.add_metric([status], number)
    yield deliveries
