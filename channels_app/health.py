"""How far behind the outbox is, for ``/readyz`` and, through :mod:`channels_app.metrics`, ``/metrics``."""

from datetime import timedelta

from django.db.models import Min

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
