"""How far behind the outbox is, for ``/readyz`` and ``/metrics``."""

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Count, Min
from prometheus_client.core import GaugeMetricFamily, Metric

from channels_app.models import Delivery
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
    """Deliveries by status, and the age of the oldest that is due."""
    by_status = GaugeMetricFamily("hookgate_deliveries", "Deliveries by status.", labels=["status"])
    rows = Delivery.objects.order_by().values_list("status").annotate(Count("pk"))
    found = dict.fromkeys(Delivery.Status.values, 0) | dict(rows)
    for status, number in found.items():
        by_status.add_metric([status], number)
    yield by_status
    yield GaugeMetricFamily(
        "hookgate_oldest_due_delivery_seconds",
        "How long the oldest due delivery has been due.",
        oldest_due().total_seconds(),
    )
