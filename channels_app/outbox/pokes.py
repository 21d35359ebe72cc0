"""Telling Celery that something is due. A poke saves seconds and nothing else: the sweep finds every row anyway."""

import threading
import time
import weakref
from functools import cache
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from kombu import pools

from channels_app import metrics as measures
from portal.celery import app
from portal.observe import metrics

# Seconds for which a broker that failed is left alone, so that a burst of pokes can't add up its time-outs.
REST = 5.0
# Seconds for connecting to the broker, and for handing it one poke: a request waits for no longer than that.
TIMEOUT = 0.3
# Celery keeps a poke back for at most so many seconds.
LONGEST = 240.0
# A poke that nobody took for so long is worth nothing any more: the sweep has been there.
EXPIRES = 30
# So many rows go into one message.
TOGETHER = 40

log = structlog.get_logger(__name__)
_resting_until = 0.0


class _Pokes:
    """Rows that are due when a transaction is committed, told in one message."""

    def __init__(self) -> None:
        self.ids: list[UUID] = []

    def __call__(self) -> None:
        _poke(self.ids, 0.0)


class _Thread(threading.local):
    """What the thread's transaction has gathered. Whoever ends a transaction, or rolls back to a savepoint, lets go of
    what was to be done on commit: nobody but the transaction holds on to it."""

    gathered: "weakref.ref[_Pokes] | None" = None


_thread = _Thread()


def poke_on_commit(delivery_id: UUID, *, seconds: float = 0.0) -> None:
    """Have ``delivery_id`` looked at ``seconds`` after the current transaction is committed. Never raises.

    What is further away than ``LONGEST`` is left to the sweep. A poke may be sent for a row that was rolled back.
    """
    if seconds:
        if seconds <= LONGEST:
            transaction.on_commit(lambda: _poke([delivery_id], seconds), robust=True)
        return
    pokes = _thread.gathered() if _thread.gathered else None
    if pokes is None or len(pokes.ids) >= TOGETHER or not transaction.get_connection().in_atomic_block:
        pokes = _Pokes()
        _thread.gathered = weakref.ref(pokes)
        pokes.ids.append(delivery_id)
        transaction.on_commit(pokes, robust=True)
    else:
        pokes.ids.append(delivery_id)


def _poke(ids: list[UUID], seconds: float) -> None:
    global _resting_until
    if time.monotonic() < _resting_until:
        metrics.count(measures.POKES, result="left_out")
        return
    try:
        _send([str(delivery_id) for delivery_id in ids], seconds)
    except Exception as error:  # noqa: BLE001  # whatever a broker does, it costs seconds and never the request
        _resting_until = time.monotonic() + REST
        metrics.count(measures.POKES, result="failed")
        log.warning("poke.failed", error=type(error).__name__)
    else:
        metrics.count(measures.POKES, result="ok")


def _send(ids: list[str], seconds: float) -> None:
    with _producers().acquire(block=True, timeout=TIMEOUT) as producer:
        app.send_task(
            "channels_app.tasks.deliver",
            args=ids,
            retry=False,
            countdown=seconds or None,
            expires=seconds + EXPIRES,
            producer=producer,
        )


@cache
def _producers() -> Any:
    """Connections to the broker that are impatient; the workers' own are not."""
    options = {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT} if settings.REDIS_URL else {}
    return pools.producers[app.connection_for_write(transport_options=options)]
