"""Prometheus metrics: how they are declared and counted. What shows them is :mod:`portal.observe.exposition`.

Every process counts what it does itself, in memory. Where several processes answer together (``serve --workers N``, a
Celery worker and its children) ``HOOKGATE_METRICS_DIR`` names a folder in which the library adds their counts up. A
label takes few values, known beforehand: never an id, a name or a text that somebody sent.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

# When each number began is worth no second line for every one.
disable_created_metrics()  # type: ignore[no-untyped-call]

# What each app declared. In a metrics folder the values are elsewhere, and this holds the names alone.
registry = CollectorRegistry()
for collector in (ProcessCollector, PlatformCollector, GCCollector):
    collector(registry=registry)

# Upper bounds in seconds, for what a machine does and for what people do.
FAST = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
SLOW = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0)


@dataclass(frozen=True)
class Declared:
    """One metric: its full name, its help, the names of its labels, and where its values come from.

    ``source`` is ``process`` for what each process counts, else ``database`` or ``broker``: read when somebody scrapes.
    """

    name: str
    text: str
    labels: tuple[str, ...]
    source: str = "process"

    def family(self) -> GaugeMetricFamily:
        """An empty gauge of that name, for a reader to fill."""
        return GaugeMetricFamily(self.name, self.text, labels=self.labels)


_declared: list[Declared] = []


def reading(name: str, text: str, *labels: str, source: str = "database") -> Declared:
    """Declare a gauge that is read when somebody scrapes; ``hookgate_NAME``."""
    made = Declared(f"hookgate_{name}", text, labels, source)
    _declared.append(made)
    return made


def counter(name: str, text: str, **labels: Iterable[str]) -> Counter:
    """A number that only grows; ``hookgate_NAME_total``.

    ``labels`` names each label's values; where all are known, each combination starts at 0. An empty list is for values
    that code elsewhere defines (routes, codes of refusals).
    """
    made = Counter(f"hookgate_{name}", text, list(labels), registry=registry)
    _prepare(made, f"hookgate_{name}_total", text, labels)
    return made


def histogram(name: str, text: str, buckets: Sequence[float], **labels: Iterable[str]) -> Histogram:
    """How long something took, in seconds; ``hookgate_NAME`` with ``_bucket``, ``_count`` and ``_sum``."""
    made = Histogram(f"hookgate_{name}", text, list(labels), registry=registry, buckets=buckets)
    _prepare(made, f"hookgate_{name}", text, labels)
    return made


def gauge(name: str, text: str) -> Gauge:
    """How many there are now, added up over the living processes; ``hookgate_NAME``."""
    made = Gauge(f"hookgate_{name}", text, registry=registry, multiprocess_mode="livesum")
    _prepare(made, f"hookgate_{name}", text, {})
    return made


def _prepare(
    made: Counter | Histogram | Gauge, name: str, text: str, labels: dict[str, Iterable[str]]
) -> None:
    known = {label: tuple(values) for label, values in labels.items()}
    _declared.append(Declared(name, text, tuple(known)))
    if known and all(known.values()):
        for values in itertools.product(*known.values()):
            made.labels(*values)


def declared() -> list[Declared]:
    """Every metric of ours that has been declared so far."""
    return list(_declared)


def count(counter: Counter, by: float = 1, **labels: str) -> None:
    """Add to a counter. Raises ``ValueError`` for a label that it lacks."""
    (counter.labels(**labels) if labels else counter).inc(by)


def observe(histogram: Histogram, seconds: float, **labels: str) -> None:
    """Note one duration; a clock that was set back makes it 0. Raises ``ValueError`` for a label that it lacks."""
    (histogram.labels(**labels) if labels else histogram).observe(max(0.0, seconds))


def count_on_commit(counter: Counter, by: float = 1, **labels: str) -> None:
    """:func:`count` when the current transaction commits: what is undone has not happened."""
    transaction.on_commit(lambda: count(counter, by, **labels), robust=True)


def observe_on_commit(histogram: Histogram, seconds: float, **labels: str) -> None:
    """:func:`observe` when the current transaction commits."""
    transaction.on_commit(lambda: observe(histogram, seconds, **labels), robust=True)


# The portal's own; each app has a module ``metrics`` for its part.
CONNECTIONS_ENDED = counter(
    "connections_ended",
    "Connections that the server ended: there were too many, or the client was too slow.",
    reason=("too_many", "slow_head", "slow_body", "slow_reader"),
)
REQUESTS = counter(
    "http_requests", "HTTP requests, by the route that took them.", route=(), method=(), status=()
)
REQUEST_SECONDS = histogram(
    "http_request_seconds",
    "Seconds from a request's first byte to its answer's last; requests that wait or stream are left out.",
    FAST,
    route=(),
)
REFUSALS = counter(
    "refusals",
    "Requests, callbacks and taps that were refused, by status and code of the refusal.",
    kind=(),
    status=(),
    code=(),
)
WAITING = gauge("waiting", "Requests that wait here: for a confirmation, or on an event stream.")
TASKS = counter("tasks", "Celery tasks that ended, by name and result.", task=(), result=())
TASK_SECONDS = histogram("task_seconds", "Seconds that a Celery task ran.", FAST, task=())
TASKS_QUEUED = reading(
    "tasks_queued", "Celery tasks that no worker has taken yet; not without Redis.", source="broker"
)
