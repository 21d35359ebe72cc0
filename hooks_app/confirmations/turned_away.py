"""What the portal remembers, and tells people, of calls it turned away with ``too_many_pending``.

A runtime may ask many times a second: each refusal is counted, and only the first of a day is a line of the log and an
audit event.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import F

from hooks_app import metrics as measures
from hooks_app.models import Agent, TurnedAway
from portal import access, audit
from portal.lib import clock
from portal.models import User
from portal.models.organizations import Role
from portal.observe import metrics

# After so long without one the next refusal is news again, and the pages say nothing of the last.
QUIET = timedelta(days=1)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Notice:
    """What a page says of one agent: ``count`` refusals from ``first_at`` to ``last_at``; ``allowed`` may wait."""

    agent: Agent
    count: int
    allowed: int
    first_at: datetime
    last_at: datetime


def note(agent: Agent, *, allowed: int) -> None:
    """Count one refusal of an agent of which ``allowed`` requests may wait; the first of a day is logged, audited."""
    metrics.count(measures.TURNED_AWAY)
    now = clock.now()
    if _count(agent, allowed, now):
        return
    with transaction.atomic():
        # Of several at once one begins the day, and the others count.
        Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
        if _count(agent, allowed, now):
            return
        TurnedAway.objects.update_or_create(
            agent=agent, defaults={"count": 1, "allowed": allowed, "first_at": now, "last_at": now}
        )
        audit.append(
            organization=agent.organization,
            actor=audit.SYSTEM,
            action="agent.calls_turned_away",
            kind="agent",
            id=agent.pk,
            name=agent.slug,
            data={"max_pending": allowed},
        )
    log.warning(
        "agent.calls_turned_away",
        organization=agent.organization.slug,
        agent=agent.slug,
        max_pending=allowed,
    )


def _count(agent: Agent, allowed: int, now: datetime) -> bool:
    recent = TurnedAway.objects.filter(agent=agent, last_at__gt=now - QUIET)
    return bool(recent.update(count=F("count") + 1, allowed=allowed, last_at=now))


def of_agent(agent: Agent) -> Notice | None:
    """What the agent's page says; ``None`` where nothing was turned away for a day."""
    row = TurnedAway.objects.filter(agent=agent, last_at__gt=clock.now() - QUIET).first()
    return _notice(row) if row else None


def seen_by(user: User) -> list[Notice]:
    """What the inbox of somebody says who can do something about it: decide, or raise an agent's limit."""
    rows = TurnedAway.objects.filter(
        last_at__gt=clock.now() - QUIET,
        agent__organization__in=access.organizations(user, Role.ADMIN, Role.APPROVER),
    ).select_related("agent", "agent__organization")
    return [_notice(row) for row in rows.order_by("-last_at")[:20]]


def _notice(row: TurnedAway) -> Notice:
    return Notice(row.agent, row.count, row.allowed, row.first_at, row.last_at)
