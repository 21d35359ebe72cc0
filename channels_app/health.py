"""How far behind the outbox is, for ``/readyz`` and ``/metrics``."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from django.db.models import Count, Min, Model
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from channels_app.models import Delivery, DeliveryAttempt, Interaction
from portal.health import Health
from portal.lib import clock

# A sweep runs every few seconds: whatever is overdue for longer waits for a worker that isn't there.
STALE = timedelta(seconds=60)


def oldest_due() -> timedelta:
    """For how long the oldest due delivery has been due; zero when nothing is."""
    now = clock.now()
    oldest = Delivery.objects.filter(due_at__lte=now).aggregate(Min("due_at"))["due_at__min"]
    return now - oldest if oldest else timedelta()


def check_oldest_due() -> Health:
    """Whether somebody delivers."""
    age = oldest_due()
    detail = f"oldest due delivery: {age.total_seconds():.0f} s"
    if age <= STALE:
        return Health(True, detail)
    return Health(False, f"{detail}; see that a Celery worker and beat run")


def read_metrics() -> Iterator[Metric]:
    """Deliveries by status, calls to platforms and taps by result, the age of the oldest delivery that is due."""
    yield GaugeMetricFamily(
        "hookgate_oldest_due_delivery_seconds",
        "How long the oldest due delivery has been due.",
        oldest_due().total_seconds(),
    )
    deliveries = GaugeMetricFamily("hookgate_deliveries", "Deliveries by status.", labels=["status"])
    for status, number in _count(Delivery, "status", Delivery.Status.values):
        deliveries.add_metric([status], number)
    yield deliveries
    attempts = CounterMetricFamily(
        "hookgate_delivery_attempts", "Calls to platforms, by result.", labels=["result"]
    )
    for result, number in _count(DeliveryAttempt, "result", DeliveryAttempt.Result.values):
        attempts.add_metric([result], number)
    yield attempts
    taps = CounterMetricFamily("hookgate_taps", "Authentic taps, by result.", labels=["result"])
    for result, number in _count(Interaction, "result", []):
        taps.add_metric([result], number)
    yield taps


def _count(model: type[Model], column: str, known: Iterable[str]) -> Iterable[tuple[str, int]]:
    rows = model._default_manager.order_by().values_list(column).annotate(Count("pk"))
    return (dict.fromkeys(known, 0) | dict(rows)).items()
