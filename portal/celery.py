"""The Celery application. Its tasks only poke and sweep: what must happen is in the database."""

import os
import sys
from typing import Any

import kombu
from celery import Celery
from celery.app.amqp import AMQP
from django.conf import settings
from django_structlog.celery.steps import DjangoStructLogInitStep
from kombu.transport import TRANSPORT_ALIASES

from portal.worker import processes

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

# Seconds; a request is never held up by a broker that doesn't answer.
SOCKET_TIMEOUT = 1

# Seconds between a worker's (and the scheduler's) attempts to reach a broker that is away: the first, the longest.
RECONNECT = (0.5, 2.0)


class _Connection(kombu.Connection):
    """By itself it would wait two seconds longer each time, up to 30, and miss the broker's return by so much."""

    def _ensure_connection(self, *args: Any, **options: Any) -> Any:
        waits = {"interval_start": RECONNECT[0], "interval_step": RECONNECT[0], "interval_max": RECONNECT[1]}
        return super()._ensure_connection(*args, **(waits | options))


class _Messages(AMQP):
    Connection = _Connection


TRANSPORT_ALIASES |= dict.fromkeys(("redis", "rediss"), "portal.worker.broker_transport:Transport")

app = Celery("portal", amqp=_Messages)
app.conf.update(
    broker_url=settings.REDIS_URL or "memory://localhost/",
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    timezone="UTC",
    task_acks_late=True,
    task_time_limit=120,
    task_soft_time_limit=90,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    broker_connection_retry_on_startup=True,
    # For ever: a worker that gave up would have to be started by somebody.
    broker_connection_max_retries=None,
    task_publish_retry=False,
    broker_transport_options={
        "socket_timeout": SOCKET_TIMEOUT,
        "socket_connect_timeout": SOCKET_TIMEOUT,
        # Without it a publisher tries again for six seconds, whatever `retry` says; workers reconnect by themselves.
        "max_retries": 0,
    }
    if settings.REDIS_URL
    else {"polling_interval": 0.1},
    beat_schedule={
        "deliver-what-is-due": {
            "task": "channels_app.tasks.sweep",
            "schedule": 3.0,
            "options": {"expires": 3},
        },
        "expire-confirmations": {"task": "hooks_app.tasks.sweep", "schedule": 1.0, "options": {"expires": 1}},
        "purge-what-is-old": {
            "task": "hooks_app.tasks.purge",
            "schedule": 3600.0,
            "options": {"expires": 3600},
        },
    },
    beat_schedule_filename=str(settings.VAR_DIR / "celerybeat-schedule"),
)
# Celery would close the connection before and after each task; who opens one for tasks says when it is closed.
app.conf["CELERY_DB_REUSE_MAX"] = sys.maxsize
app.autodiscover_tasks()
# Carries the id of the request that asked for a task into the task's log lines.
app.steps["worker"].add(DjangoStructLogInitStep)
processes.connect()
