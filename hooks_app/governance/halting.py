"""Operating the switches that hold at once: the kill switch of an organization or an agent, and read-only mode.

How they stand is read in :mod:`hooks_app.switches`.
"""

from datetime import datetime
from typing import Any

from django.db import transaction

from hooks_app import metrics as measures
from hooks_app.models import Agent
from portal import audit
from portal.lib import clock
from portal.lib.problems import FieldError, invalid
from portal.models import Organization
from portal.observe import metrics
from portal.wakeups import wakeups

MAX_REASON = 500


def halt(
    *,
    organization: Organization,
    agent: Agent | None = None,
    reason: str,
    until: datetime | None = None,
    actor: audit.Actor,
) -> None:
    """Stop every tool of ``agent``, or of all agents. Takes hold with each runtime's next look, and wakes them.

    Raises ``Problem`` 400 without a reason, or with a time (aware) that is over.
    """
    reason = reason.strip()
    if not reason:
        raise invalid(FieldError("reason", "required", "say why, for everybody whose calls stop"))
    if len(reason) > MAX_REASON:
        raise invalid(FieldError("reason", "invalid", f"use at most {MAX_REASON} characters"))
    if until is not None and until <= clock.now():
        raise invalid(FieldError("until", "invalid", "the time is over; name a later one, or leave it out"))
    data = {"reason": reason, "until": clock.rfc3339(until)}
    changes = {"halted": True, "halt_reason": reason, "halt_until": until}
    _switch(organization, agent, changes, verb="halted", data=data, actor=actor)


def resume(*, organization: Organization, agent: Agent | None = None, actor: audit.Actor) -> bool:
    """Take the halt back. Returns whether there was one; its end may have passed already."""
    row: Agent | Organization = agent or organization
    row.refresh_from_db(fields=["halted"])
    if not row.halted:
        return False
    changes = {"halted": False, "halt_reason": "", "halt_until": None}
    _switch(organization, agent, changes, verb="resumed", data={}, actor=actor)
    return True


def set_read_only(*, organization: Organization, read_only: bool, actor: audit.Actor) -> None:
    """Switch read-only mode: while it is on, no tool that writes runs."""
    verb = "read_only" if read_only else "writable"
    _switch(organization, None, {"read_only": read_only}, verb=verb, data={}, actor=actor)


def _switch(
    organization: Organization,
    agent: Agent | None,
    changes: dict[str, Any],
    *,
    verb: str,
    data: dict[str, Any],
    actor: audit.Actor,
) -> None:
    row: Agent | Organization = agent or organization
    kind = "agent" if agent else "organization"
    with transaction.atomic():
        type(row)._default_manager.filter(pk=row.pk).update(**changes)
        audit.append(
            organization=organization,
            actor=actor,
            action=f"{kind}.{verb}",
            kind=kind,
            id=row.pk,
            name=row.slug,
            data=data,
        )
        wakeups.publish_on_commit(f"{kind}:{row.pk}")
        metrics.count_on_commit(measures.SWITCHES, kind=kind, verb=verb)
    for name, value in changes.items():
        setattr(row, name, value)
