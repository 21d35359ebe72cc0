"""The Celery application. Its tasks only poke and sweep: what must happen is in the database."""

import os

from celery import Celery
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

# Seconds; a request is never held up by a broker that doesn't answer.
SOCKET_TIMEOUT = 1

app = Celery("portal")
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
app.autodiscover_tasks()
