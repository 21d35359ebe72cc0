"""Telling Celery that something is due. A poke saves seconds and nothing else: the sweep finds every row anyway."""

import time
from uuid import UUID

import structlog
from django.db import transaction

from portal.celery import app

# Seconds for which a broker that failed is left alone, so that a burst of pokes can't add up its time-outs.
REST = 5.0
# A poke that nobody took for so long is worth nothing any more: the sweep has been there.
EXPIRES = 30

log = structlog.get_logger(__name__)
_resting_until = 0.0


def poke_on_commit(delivery_id: UUID) -> None:
    """Have ``delivery_id`` looked at as soon as the current transaction is committed. Never raises."""
    transaction.on_commit(lambda: _poke(delivery_id), robust=True)


def _poke(delivery_id: UUID) -> None:
    global _resting_until
    if time.monotonic() < _resting_until:
        return
    try:
        app.send_task("channels_app.tasks.deliver", args=[str(delivery_id)], retry=False, expires=EXPIRES)
    except Exception as error:  # noqa: BLE001  # whatever a broker does, it costs seconds and never the request
        _resting_until = time.monotonic() + REST
        log.warning("poke_failed", error=type(error).__name__)
