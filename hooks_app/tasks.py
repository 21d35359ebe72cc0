"""Periodic work of this app. What must happen is in the database; a task that is lost or runs twice changes nothing."""

from hooks_app import confirmations, limits, retention
from portal.celery import app


@app.task
def sweep() -> None:
    """End the requests whose time is over or whose cards reach nobody."""
    confirmations.sweep()


@app.task
def purge() -> None:
    """Delete what organizations no longer want to keep, and the answers of rate limits that nobody needs any more."""
    retention.purge()
    limits.purge()
