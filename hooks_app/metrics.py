"""What this app adds to ``/metrics``."""

from collections.abc import Iterator

from django.db.models import Count
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hooks_app.models import ConfirmationRequest, Decision
from portal.lib import clock


def read_metrics() -> Iterator[Metric]:
    """How many requests wait for people, how the others ended, and what people decided."""
    pending = ConfirmationRequest.objects.filter(status="pending", expires_at__gt=clock.now())
    yield GaugeMetricFamily("hookgate_requests_pending", "Requests that wait for people.", pending.count())
    transitions = CounterMetricFamily(
        "hookgate_transitions", "Requests that ended, by how.", labels=["status"]
    )
    ended = ConfirmationRequest.objects.exclude(status="pending").order_by()
    statuses = [status for status in ConfirmationRequest.Status.values if status != "pending"]
    found = dict.fromkeys(statuses, 0) | dict(ended.values_list("status").annotate(Count("pk")))
    for status, number in found.items():
        transitions.add_metric([status], number)
    yield transitions
    decisions = CounterMetricFamily("hookgate_decisions", "Votes, by what they said.", labels=["decision"])
    votes = Decision.objects.order_by().values_list("decision").annotate(Count("pk"))
    for decision, number in (dict.fromkeys(["approve", "reject"], 0) | dict(votes)).items():
        decisions.add_metric([decision], number)
    yield decisions
