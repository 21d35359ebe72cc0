"""Prometheus metrics: counters of this process, and what the database says when somebody scrapes."""

import hmac
from collections.abc import Callable, Iterable, Iterator

import structlog
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from portal import wakeups

log = structlog.get_logger(__name__)

registry = CollectorRegistry()
for collector in (ProcessCollector, PlatformCollector, GCCollector):
    collector(registry=registry)

# What only this process knows; what the database knows is read from there, whichever process did it. A label takes few
# values: never an id, a name or a text.
COUNTERS = {
    "waits": Counter(
        "hookgate_waits", "Waits for a confirmation, by their end.", ["result"], registry=registry
    ),
    "streams": Counter("hookgate_streams", "Event streams that were opened.", ["kind"], registry=registry),
}

# What apps add in ``settings.METRIC_READERS``: a function that reads their metrics from the database.
Reader = Callable[[], Iterable[Metric]]


def count(name: str, **labels: str) -> None:
    """Add one to a counter of ``COUNTERS``. Raises ``KeyError`` and ``ValueError`` for a name or label it lacks."""
    counter = COUNTERS[name]
    (counter.labels(**labels) if labels else counter).inc()


class _Readers(Collector):
    def describe(self) -> Iterable[Metric]:
        return ()  # or the library would read the database when the process starts

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("hookgate_waiting", "Requests that wait in this process.", wakeups.waiting())
        for path in settings.METRIC_READERS:
            try:
                yield from list(import_string(path)())
            except Exception as error:  # noqa: BLE001  # the other metrics say more than no answer
                log.warning("metrics.reader_failed", reader=path, error=type(error).__name__)


registry.register(_Readers())


@require_safe
@never_cache
@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """The text format of Prometheus. With ``HOOKGATE_METRICS_TOKEN``: only for ``Authorization: Bearer TOKEN``."""
    if settings.METRICS_TOKEN:
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {settings.METRICS_TOKEN}".encode()):
            return HttpResponse(
                "Send 'Authorization: Bearer' with HOOKGATE_METRICS_TOKEN.\n",
                status=401,
                content_type="text/plain",
                headers={"WWW-Authenticate": "Bearer"},
            )
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
