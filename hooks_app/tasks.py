"""Periodic work of this app. What must happen is in the database; a task that is lost or runs twice changes nothing."""

from hooks_app import confirmations, retention
from portal.celery import app


@app.task
def sweep() -> None:
    """End the requests whose time is over or whose cards reach nobody."""
    confirmations.sweep()


@app.task
def purge() -> None:
    """Delete what organizations no longer want to keep."""
    retention.purge()
