"""Celery tasks: pokes and the sweep. Both may run any number of times."""

from uuid import UUID

from channels_app import deliveries
from portal.celery import app


@app.task
def deliver(delivery_id: str) -> None:
    """Deliver one row if it is due."""
    deliveries.deliver(UUID(delivery_id))


@app.task
def sweep() -> None:
    """Deliver whatever is due."""
    deliveries.sweep()
