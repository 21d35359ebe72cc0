"""What a request's life looks like from outside: one log line and a few numbers for each step, after its commit.

Every line has the request's id as ``confirmation``, those of its cards have it in ``topic``: one search tells it all.
"""

from collections.abc import Callable
from typing import Any

import structlog
from django.db import transaction

from hooks_app import metrics as measures
from hooks_app.models import ConfirmationRequest
from portal.observe import metrics

log = structlog.get_logger(__name__)


def asked(row: ConfirmationRequest) -> None:
    """A runtime asked, and a request was made."""

    def tell() -> None:
        _log("confirmation.created", row, tool=row.tool_name, mode=row.mode, policy=row.policy["slug"])
        metrics.count(measures.REQUESTS, result="created")

    _after(tell)


def asked_again(row: ConfirmationRequest) -> None:
    """A runtime asked for what it had asked for before."""
    _log("confirmation.attached", row)
    metrics.count(measures.REQUESTS, result="attached")


def voted(row: ConfirmationRequest, decision: str, path: str) -> None:
    """Somebody's vote counts; who it was is in the audit trail."""

    def tell() -> None:
        _log("decision.recorded", row, decision=decision, path=path)
        metrics.count(measures.VOTES, decision=decision, path=path)

    _after(tell)


def ended(row: ConfirmationRequest) -> None:
    """The request has left ``pending``."""
    assert row.ended_at is not None
    status, seconds = str(row.status), (row.ended_at - row.created_at).total_seconds()

    def tell() -> None:
        _log(f"confirmation.{status}", row, seconds=round(seconds, 3))
        metrics.count(measures.TRANSITIONS, status=status)
        metrics.observe(measures.REQUEST_SECONDS, seconds, status=status)

    _after(tell)


def consumed(row: ConfirmationRequest) -> None:
    """A runtime used the approval; the tool runs now."""
    assert row.consumed_at is not None
    assert row.ended_at is not None
    seconds = (row.consumed_at - row.ended_at).total_seconds()

    def tell() -> None:
        _log("confirmation.consumed", row, seconds=round(seconds, 3))
        metrics.count(measures.CONSUMPTIONS, result="first")
        metrics.observe(measures.RESUME_SECONDS, seconds)

    _after(tell)


def consumed_again(row: ConfirmationRequest) -> None:
    """The same attempt was told again that it may run."""
    _log("confirmation.consumed_again", row)
    metrics.count(measures.CONSUMPTIONS, result="again")


def reported(row: ConfirmationRequest) -> None:
    """The runtime said how the call ended."""
    outcome = str(row.outcome)

    def tell() -> None:
        _log("confirmation.outcome", row, outcome=outcome)
        metrics.count(measures.OUTCOMES, status=outcome)

    _after(tell)


def _after(tell: Callable[[], None]) -> None:
    # Robust: what is only told must not undo what has happened.
    transaction.on_commit(tell, robust=True)


def _log(event: str, row: ConfirmationRequest, **more: Any) -> None:
    log.info(
        event,
        confirmation=str(row.pk),
        agent=row.agent.slug,
        organization=row.organization.slug,
        runtime=row.runtime or None,
        **more,
    )
