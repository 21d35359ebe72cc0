"""Periodic work of this app. What must happen is in the database; a task that is lost or runs twice changes nothing."""

from hooks_app import confirmations, limits, retention
from portal import sign_ins
from portal.celery import app


@app.task
def sweep() -> None:
    """End the requests whose time is over or whose cards reach nobody."""
    confirmations.sweep()


@app.task
def purge() -> None:
    """Delete what organizations no longer want to keep, and what nobody needs any more: answers of rate limits, failed
    sign-ins, sessions that are over.
    """
    retention.purge()
    limits.purge()
    sign_ins.purge()
