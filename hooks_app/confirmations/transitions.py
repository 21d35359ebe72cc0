"""The one way in which a request leaves ``pending``."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from channels_app.outbox import deliveries
from hooks_app.confirmations import approval_cards, confirmation_log, rows
from hooks_app.models import Agent, ConfirmationRequest
from portal import audit
from portal.audit import Actor
from portal.models import AuditEvent

Status = ConfirmationRequest.Status


def end(
    row: ConfirmationRequest,
    status: Status,
    *,
    now: datetime,
    actor: Actor,
    reason: str | None = None,
    data: dict[str, Any] | None = None,
    before: Sequence[AuditEvent] = (),
) -> bool:
    """Move a pending request to ``status``; say whether this call was the one that did.

    One conditional UPDATE decides who wins: ``expired`` needs the deadline behind it, everything else before it. Call
    it inside a transaction: stage, audit, cards and wake-ups are part of it. ``before`` are events that led to it, not
    yet recorded. ``row`` is brought up to date.
    """
    on_time = Q(expires_at__lte=now) if status == Status.EXPIRED else Q(expires_at__gt=now)
    changes: dict[str, Any] = {"status": status, "ended_at": now, "reason": reason}
    if status == Status.APPROVED:
        changes["start_by"] = now + timedelta(seconds=row.policy["start_by_seconds"])
    won = ConfirmationRequest.objects.filter(on_time, pk=row.pk, status=Status.PENDING).update(**changes)
    if not won:
        return False
    for name, value in changes.items():
        setattr(row, name, value)
    row.stages.filter(status="open").update(
        status="passed" if status == Status.APPROVED else "closed", ended_at=now
    )
    told = event(row, f"confirmation.{status}", actor=actor, data={**(data or {}), "reason": reason})
    audit.append_all([*before, told])
    # Before the cards: a wake-up is quick, and their pokes may find a slow broker.
    rows.wake(row)
    replace_cards(row)
    confirmation_log.ended(row)
    return True


def record(row: ConfirmationRequest, action: str, *, actor: Actor, data: dict[str, Any]) -> None:
    """Append one audit event about a request."""
    audit.append_all([event(row, action, actor=actor, data=data)])


def event(row: ConfirmationRequest, action: str, *, actor: Actor, data: dict[str, Any]) -> AuditEvent:
    """One audit event about a request, not yet recorded."""
    return audit.draft(
        organization=row.organization,
        actor=actor,
        action=action,
        kind="confirmation",
        id=row.pk,
        name=f"{row.agent.slug} · {row.tool_name}",
        data=data,
    )


def replace_cards(row: ConfirmationRequest) -> None:
    """Let every card of the request show how it stands now."""
    if row.mode == Agent.Mode.INLINE_ONLY:
        return  # it never had one
    deliveries.replace(
        topic=rows.topic(row.pk),
        render=lambda channel: approval_cards.build(row, language=channel.language),
    )
