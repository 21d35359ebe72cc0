"""The worker of production: a Celery process of its own."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from hooks_app.models import ConfirmationRequest
from portal.lib import clock
from tests import services
from tests.machinery.live import environment, until


def test_the_production_worker_runs_the_sweep_on_one_connection(
    world: Any, pending: Callable[..., ConfirmationRequest], tmp_path: Path
) -> None:
    with working(tmp_path):
        expire(pending())
        if connection.vendor != "postgresql":
            return
        (kept,) = backends()
        expire(pending())
        assert backends() == [kept]
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [kept])
        expire(pending())
        (fresh,) = backends()
        assert fresh != kept


@contextmanager
def working(folder: Path) -> Iterator[None]:
    """A Celery worker with one child, and the scheduler; PostgreSQL knows them by name."""
    variables = environment(REDIS_URL=services.redis_url(), PGAPPNAME="worker")
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "portal", *arguments],
            env=variables,
            cwd=settings.BASE_DIR,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for arguments in (["worker", "--concurrency", "1"], ["beat", "--schedule", str(folder / "beat")])
    ]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(20)


def expire(request: ConfirmationRequest) -> None:
    """Make a request overdue, and wait until the worker has ended it."""
    ConfirmationRequest.objects.filter(pk=request.pk).update(
        created_at=clock.now() - timedelta(minutes=2), expires_at=clock.now() - timedelta(minutes=1)
    )
    until(
        lambda: ConfirmationRequest.objects.get(pk=request.pk).status == "expired",
        seconds=40,
        what="the worker's sweep",
    )


def backends() -> list[int]:
    """The server's processes that serve the worker."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'worker' ORDER BY pid")
        return [pid for (pid,) in cursor.fetchall()]
