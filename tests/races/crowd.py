"""Many threads that begin at the same moment, each with its own database connection."""

import threading
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import connection

from portal.lib.problems import Problem
from tests.soak import counts

POSTGRES = "postgresql" in settings.DATABASES["default"]["ENGINE"]
# SQLite lets one writer in at a time, so that its rounds have less to show.
ROUNDS = (200 if POSTGRES else 20) if counts.SOAK else 3
# The most threads at once, and the connections that the races have on PostgreSQL; its server allows 100.
MOST = 64
# Seconds; a thread that is not back by then is stuck.
PATIENCE = 300


def at_once(*jobs: Callable[[], Any]) -> list[Any]:
    """Run every job (at most ``MOST``) in a thread of its own; the results in order, a refusal as its :class:`Problem`.

    Anything else that a job raises is raised here: a deadlock or a broken constraint is no result.
    """
    barrier = threading.Barrier(len(jobs), timeout=PATIENCE)
    results: list[Any] = [TimeoutError("still running")] * len(jobs)

    def run(index: int, job: Callable[[], Any]) -> None:
        try:
            connection.ensure_connection()
            barrier.wait()
            results[index] = job()
        except Exception as error:
            results[index] = error
        finally:
            connection.close()

    # The pool has one connection per thread, and this thread needs none while it waits.
    connection.close()
    threads = [threading.Thread(target=run, args=item, daemon=True) for item in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, Problem):
            raise result
    return results


def codes(results: list[Any]) -> list[str]:
    """The codes of the refusals among ``results``."""
    return [result.code for result in results if isinstance(result, Problem)]
