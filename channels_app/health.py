"""How far behind the outbox is, for ``/readyz`` and, through :mod:`channels_app.metrics`, ``/metrics``."""

from datetime import timedelta

from django.db.models import Count, Min, Q

from channels_app.models import App, Delivery
from portal.health import Health
from portal.lib import clock

# A sweep runs every few seconds: whatever is overdue for longer waits for a worker that isn't there.
STALE = timedelta(seconds=60)


def oldest_due() -> timedelta:
    """For how long the oldest due delivery has been due that somebody should send now; zero when there is none."""
    now = clock.now()
    # Not those of a platform that is away, as long as somebody looks whether it is back.
    away = Q(channel__app__rest_until__gt=now - STALE)
    rows = Delivery.objects.filter(due_at__lte=now).exclude(away)
    oldest = rows.aggregate(Min("due_at"))["due_at__min"]
    return now - oldest if oldest else timedelta()


def check_oldest_due() -> Health:
    """Whether somebody delivers. A platform that is away is told, and is nothing that this process could mend."""
    age = oldest_due()
    detail = f"oldest due delivery: {age.total_seconds():.0f} s"
    away = App.objects.filter(outage_since__isnull=False).aggregate(Count("pk"), Min("outage_since"))
    if away["pk__count"]:
        since = clock.rfc3339(away["outage_since__min"])
        detail += f"; apps whose platform is away: {away['pk__count']}, since {since} (see check_channel)"
    if age <= STALE:
        return Health(True, detail)
    return Health(False, f"{detail}; see that a Celery worker and beat run")
