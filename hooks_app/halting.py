"""The switches that hold at once: the kill switch of an organization or an agent, and read-only mode."""

from datetime import datetime
from typing import Any, Protocol

from django.db import transaction

from hooks_app import metrics as measures
from hooks_app.models import Agent
from portal import audit, metrics, wakeups
from portal.lib import clock
from portal.lib.problems import FieldError, invalid
from portal.models import Organization

MAX_REASON = 500


class Halts(Protocol):
    """A row with a kill switch."""

    @property
    def halted(self) -> bool: ...
    @property
    def halt_reason(self) -> str: ...
    @property
    def halt_until(self) -> datetime | None: ...


class Switches(Halts, Protocol):
    """An organization's switches."""

    @property
    def read_only(self) -> bool: ...


def state(agent: Halts, organization: Switches) -> dict[str, Any]:
    """What holds now: ``{"read_only", "halted", "reason", "until"}``; a halt whose time is over no longer counts.

    While both are halted, the organization's reason is told, and the end of the later of the two.
    """
    rows: tuple[Halts, ...] = (organization, agent)
    halts = [row for row in rows if is_halted(row)]
    ends = [row.halt_until for row in halts]
    return {
        "read_only": organization.read_only,
        "halted": bool(halts),
        "reason": (halts[0].halt_reason or None) if halts else None,
        "until": None if None in ends else clock.rfc3339(max((end for end in ends if end), default=None)),
    }


def is_halted(row: Halts) -> bool:
    """Whether the row's own kill switch is on at this moment."""
    return row.halted and (row.halt_until is None or row.halt_until > clock.now())


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
