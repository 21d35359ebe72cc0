"""Celery tasks: pokes and the sweep. Both may run any number of times."""

from uuid import UUID

from channels_app.outbox import deliveries
from portal.celery import app


@app.task
def deliver(*delivery_ids: str) -> None:
    """Deliver these rows where they are due."""
    deliveries.deliver([UUID(delivery_id) for delivery_id in delivery_ids])


@app.task
def sweep() -> None:
    """Deliver whatever is due."""
    deliveries.sweep()
