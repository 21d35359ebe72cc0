"""What Celery's own processes do beside tasks: log like the rest, count, show their metrics and signs of life.

Imported with the Celery application, and connected to its signals there.
"""

import os
import time
from typing import Any

import structlog
from celery import signals
from django.conf import settings

from portal.lib import closed
from portal.worker import heartbeats

log = structlog.get_logger(__name__)

_began: dict[str, float] = {}


def keep_logging(**kwargs: Any) -> None:
    """Django's settings have set logging up; that somebody is connected keeps Celery from doing it again."""


def keep_format(**kwargs: Any) -> None:
    """Celery writes that it stops past the log, which then has a line that is no event; see :func:`note_stop`."""
    from celery.apps import worker

    worker.safe_say = lambda *_: None  # type: ignore[attr-defined]  # the stubs leave it out


def keep_to_itself(**kwargs: Any) -> None:
    """What the process makes (its schedule, signs of life) is its account's alone."""
    os.umask(closed.UMASK)


def note_stop(how: str, **kwargs: Any) -> None:
    """The worker was told to stop: it takes no more tasks, and ends those that run."""
    log.info("worker.stopping", how=how)


def open_metrics(**kwargs: Any) -> None:
    """Forget an earlier start's counts, and answer Prometheus where the settings say."""
    from portal.observe import exposition

    exposition.sweep_folder()
    if not settings.METRICS_LISTEN:
        return
    try:
        exposition.listen(settings.METRICS_LISTEN)
    except OSError as error:
        # Cards are worth more than their count.
        log.error("metrics.not_listening", address=settings.METRICS_LISTEN, error=str(error))


def forget_process(pid: int, **kwargs: Any) -> None:
    """A child has ended."""
    from portal.observe import exposition

    exposition.forget_process(pid)


def show_worker_alive(**kwargs: Any) -> None:
    """The worker's main loop runs, and the broker takes its heartbeats."""
    heartbeats.give(settings.VAR_DIR, "worker")


def show_beat_alive(**kwargs: Any) -> None:
    """The scheduler has made a task, and the broker has taken it."""
    heartbeats.give(settings.VAR_DIR, "beat")


def watch_beat(**kwargs: Any) -> None:
    """This process is the scheduler."""
    signals.after_task_publish.connect(show_beat_alive)


def check_connection(**kwargs: Any) -> None:
    """A task begins: a connection that has failed, or that the server has closed, is not for it."""
    from django.db import close_old_connections

    close_old_connections()


def note_start(task_id: str, **kwargs: Any) -> None:
    """A task begins."""
    _began[task_id] = time.perf_counter()


def note_end(task_id: str, task: Any, state: str | None = None, **kwargs: Any) -> None:
    """A task has ended, one way or another."""
    from portal.observe import metrics

    began = _began.pop(task_id, None)
    metrics.count(metrics.TASKS, task=task.name, result="ok" if state == "SUCCESS" else "failed")
    if began is not None:
        metrics.observe(metrics.TASK_SECONDS, time.perf_counter() - began, task=task.name)


def connect() -> None:
    """Connect everything, once."""
    signals.setup_logging.connect(keep_logging)
    signals.worker_init.connect(keep_to_itself)
    signals.beat_init.connect(keep_to_itself)
    signals.worker_init.connect(keep_format)
    signals.worker_init.connect(open_metrics)
    signals.worker_shutting_down.connect(note_stop)
    signals.task_prerun.connect(check_connection)
    signals.worker_process_shutdown.connect(forget_process)
    signals.heartbeat_sent.connect(show_worker_alive)
    signals.beat_init.connect(watch_beat)
    signals.task_prerun.connect(note_start)
    signals.task_postrun.connect(note_end)
