"""``/metrics``: what this process and its kin have counted, and what the database says when somebody scrapes.

The web side answers at ``/metrics``. A Celery worker has no web side: with ``HOOKGATE_METRICS_LISTEN`` it answers at an
address of its own.
"""

import hmac
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import redis
import structlog
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from portal.lib import brokers
from portal.observe import metrics

REFUSED = b"Send 'Authorization: Bearer' with HOOKGATE_METRICS_TOKEN.\n"
# Celery's queue in Redis: tasks that no worker has taken yet.
QUEUE = "celery"

log = structlog.get_logger(__name__)

# What apps add in ``settings.METRIC_READERS``: a function that reads their metrics from the database. It must cost the
# same however much history there is: counts of what is open, through an index.
Reader = Callable[[], Iterable[Metric]]


class _Readers(Collector):
    def describe(self) -> Iterable[Metric]:
        return ()  # or the library would read the database when it is registered

    def collect(self) -> Iterator[Metric]:
        for path in ["portal.observe.exposition.read_queue", *settings.METRIC_READERS]:
            try:
                yield from list(import_string(path)())
            except Exception as error:  # noqa: BLE001  # the other metrics say more than no answer
                log.warning("metrics.reader_failed", reader=path, error=type(error).__name__)


def read_queue() -> Iterator[Metric]:
    """How many tasks wait in the broker; nothing without Redis, whose loss `/readyz` tells."""
    if not settings.REDIS_URL:
        return
    with suppress(redis.RedisError), brokers.client() as client:
        family = metrics.TASKS_QUEUED.family()
        family.add_metric([], client.llen(QUEUE))
        yield family


def counted() -> CollectorRegistry:
    """What this process has counted; in a metrics folder what all of its processes have."""
    if not settings.METRICS_DIR:
        return metrics.registry
    together = CollectorRegistry()
    # Annotated by the library alone for old interpreters.
    MultiProcessCollector(together, path=settings.METRICS_DIR)  # type: ignore[no-untyped-call]
    return together


def expose(*, read: bool) -> bytes:
    """The text format of Prometheus. ``read`` adds what only the database and the broker know."""
    text = generate_latest(counted())
    if read:
        readers = CollectorRegistry()
        readers.register(_Readers())
        text += generate_latest(readers)
    return text


def allowed(authorization: str) -> bool:
    """Whether an ``Authorization`` header may read: anything without ``HOOKGATE_METRICS_TOKEN``, else its bearer."""
    wanted = f"Bearer {settings.METRICS_TOKEN}"
    return not settings.METRICS_TOKEN or hmac.compare_digest(authorization.encode(), wanted.encode())


@csrf_exempt  # so that what would write is told 405
@require_safe
@never_cache
@login_not_required
def metrics_view(request: HttpRequest) -> HttpResponse:
    """The metrics of the web side, of the database and of the broker."""
    if not allowed(request.headers.get("Authorization", "")):
        return HttpResponse(
            REFUSED, status=401, content_type="text/plain", headers={"WWW-Authenticate": "Bearer"}
        )
    return HttpResponse(expose(read=True), content_type=CONTENT_TYPE_LATEST)


class _Handler(BaseHTTPRequestHandler):
    timeout = 10

    def do_GET(self) -> None:
        if self.path != "/metrics":
            self._answer(404, b"Ask for /metrics.\n", "text/plain")
        elif not allowed(self.headers.get("Authorization", "")):
            self._answer(401, REFUSED, "text/plain")
        else:
            self._answer(200, expose(read=False), CONTENT_TYPE_LATEST)

    def _answer(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are no events."""


def listen(address: str) -> ThreadingHTTPServer:
    """Answer ``/metrics`` at ``HOST:PORT`` in a daemon thread. Raises ``OSError`` when the address is taken."""
    host, _, port = address.rpartition(":")
    server = ThreadingHTTPServer((host.strip("[]"), int(port)), _Handler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


def sweep_folder() -> None:
    """Forget what processes that have ended left in the metrics folder; for the first process of a start."""
    if settings.METRICS_DIR:
        for path in Path(settings.METRICS_DIR).glob("*.db"):
            pid = path.stem.rpartition("_")[2]
            if pid.isdigit() and not _lives(int(pid)):
                path.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def forget_process(pid: int) -> None:
    """What a process that has ended counted stays; what it held does not."""
    if settings.METRICS_DIR:
        mark_process_dead(pid, settings.METRICS_DIR)  # type: ignore[no-untyped-call]
