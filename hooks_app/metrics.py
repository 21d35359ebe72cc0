"""Gauges of this app for ``/metrics``."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from hooks_app.models import ConfirmationRequest
from portal.lib import clock


def read_metrics() -> Iterator[Metric]:
    """How many requests wait for people."""
    pending = ConfirmationRequest.objects.filter(status="pending", expires_at__gt=clock.now())
    yield GaugeMetricFamily("hookgate_requests_pending", "Requests that wait for people.", pending.count())
