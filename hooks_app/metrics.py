"""What this app counts, and what it adds to ``/metrics`` from the database."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from hooks_app.models import Agent, ConfirmationRequest, ConnectorCallLog
from portal.lib import clock
from portal.models import Organization
from portal.observe import metrics

DECISIONS = ["approve", "reject"]
PATHS = ["tap", "inbox", "api"]
ENDED = [status for status in ConfirmationRequest.Status.values if status != "pending"]

REQUESTS = metrics.counter(
    "requests",
    "Requests for a confirmation: made, or found again by a runtime.",
    result=["created", "attached"],
)
TRANSITIONS = metrics.counter("transitions", "Requests that ended, by how.", status=ENDED)
REQUEST_SECONDS = metrics.histogram(
    "request_seconds", "Seconds from a request to its end, by how it ended.", metrics.SLOW, status=ENDED
)
VOTES = metrics.counter(
    "decisions",
    "Votes, by what they said and the way they came.",
    decision=DECISIONS,
    path=PATHS,
)
CONSUMPTIONS = metrics.counter(
    "consumptions", "Approvals that were used, and answers that were given again.", result=["first", "again"]
)
RESUME_SECONDS = metrics.histogram(
    "resume_seconds", "Seconds from an approval until the runtime used it.", metrics.FAST
)
OUTCOMES = metrics.counter(
    "outcomes",
    "Approved calls, by what their runtime reported of them.",
    status=ConfirmationRequest.Outcome.values,
)
WAIT_SECONDS = metrics.histogram(
    "wait_seconds",
    "Seconds that a runtime's wait for a confirmation lasted, and whether it was answered.",
    metrics.SLOW,
    result=["answered", "pending"],
)
STREAMS = metrics.counter("streams", "Event streams that were opened.", kind=["agent", "inbox"])
REGISTRY_ANSWERS = metrics.counter(
    "registry_answers",
    "Registries that were served, whole (200) or as unchanged (304).",
    status=["200", "304"],
)
REGISTRY_BUILD_SECONDS = metrics.histogram(
    "registry_build_seconds",
    "Seconds that building a registry took.",
    metrics.FAST,
    result=["built", "unbuildable"],
)
SWITCHES = metrics.counter(
    "switches",
    "Kill switches and read-only modes that were switched.",
    kind=["agent", "organization"],
    verb=["halted", "resumed", "read_only", "writable"],
)
CALLS = metrics.counter(
    "calls", "Entries of the call log that were stored, by status.", status=ConnectorCallLog.Status.values
)
CALLS_REPEATED = metrics.counter("calls_repeated", "Entries of the call log that changed nothing.")
LIMIT_CHECKS = metrics.counter(
    "limit_checks",
    "Calls of a rate-limited tool, by whether they were within the limit.",
    result=["allowed", "refused"],
)
TURNED_AWAY = metrics.counter(
    "calls_turned_away",
    "Calls that were not asked about, because as many requests of their agent waited as may.",
)
PENDING = metrics.reading("requests_pending", "Requests that wait for people.")
HALTED = metrics.reading("halted", "Kill switches that are on.", "kind")


def read() -> Iterator[Metric]:
    """How many requests wait for people (one partial index), and how many kill switches are on (two small tables)."""
    pending = PENDING.family()
    waiting = ConfirmationRequest.objects.filter(status="pending", expires_at__gt=clock.now())
    pending.add_metric([], waiting.count())
    yield pending
    halted = HALTED.family()
    for kind, model in (("agent", Agent), ("organization", Organization)):
        halted.add_metric([kind], model._default_manager.filter(halted=True).count())
    yield halted
