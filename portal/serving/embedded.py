"""Celery inside the server's process: what delivers cards and expires requests when there is no Redis.

The worker and the scheduler are Celery's own, over the in-memory broker, in two threads. They touch neither the
process's signals nor its output. Losing them loses no work: every task repeats what the database says is due.
"""

import threading
import time
from typing import Any

import structlog
from celery import beat
from celery.worker import WorkController, state

from portal.celery import app

THREADS = 4
STOP_TIMEOUT = 3.0  # seconds that running tasks get to end
# The scheduler sleeps in steps of at most this many seconds, so that it notices when it should stop.
BEAT_STEP = 1

log = structlog.get_logger(__name__)


class Embedded:
    """One worker and one scheduler. To be started once per process, and stopped when it ends."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._worker: Any = None
        self._beat: Any = None
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start both in daemon threads; returns at once."""
        app.finalize(auto=True)
        self._worker = WorkController(
            app=app,
            hostname="embedded@localhost",
            pool="threads",
            concurrency=THREADS,
            loglevel="WARNING",
            ready_callback=lambda consumer: self._ready.set(),
            without_heartbeat=True,
            without_mingle=True,
            without_gossip=True,
        )
        # Not the persistent one: its file would be shared by every process of the installation.
        self._beat = beat.Service(app, max_interval=BEAT_STEP, scheduler_cls=beat.Scheduler)
        self._threads = [
            threading.Thread(target=self._worker.start, name="celery-worker", daemon=True),
            threading.Thread(target=self._beat.start, name="celery-beat", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> bool:
        """Take no more tasks and let those that run end, at most ``STOP_TIMEOUT`` seconds. False when one still runs.

        The worker's own thread idles in the in-memory broker for up to four seconds more; it holds nothing, and ends
        with the process.
        """
        self._beat.stop()
        # Celery keeps this flag for the whole process; a number means "stop, and exit with it".
        state.should_stop = 0  # type: ignore[assignment]
        deadline = time.monotonic() + STOP_TIMEOUT
        while state.active_requests and time.monotonic() < deadline:
            time.sleep(0.02)
        running = [request.name for request in list(state.active_requests)]
        if running:
            log.warning("embedded.tasks_still_run", tasks=running)
        return not running

    def alive(self) -> bool:
        """Whether the worker takes tasks and the scheduler makes them."""
        return self._ready.is_set() and all(thread.is_alive() for thread in self._threads)


_running: Embedded | None = None


def start() -> None:
    """Start the worker and the scheduler of this process, once."""
    global _running
    if _running is None:
        _running = Embedded()
        _running.start()


def stop() -> bool:
    """Stop them. False when a task would not end in time."""
    global _running
    running, _running = _running, None
    return running is None or running.stop()


def alive() -> bool:
    """Whether this process delivers by itself, now."""
    return _running is not None and _running.alive()
