"""The call log, and the only writer of :class:`hooks_app.models.ConnectorCallLog`.

A runtime makes each entry's id and sends an entry until it is acknowledged, so the same id comes more than once: the
first entry wins, except that a final status replaces ``unknown``.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast
from hookgate import addresses
from hookgate.registry.manifest import SURFACES
from typing_extensions import TypedDict

from hooks_app import digests
from hooks_app import metrics as measures
from hooks_app.models import Agent, ConnectorCallLog
from portal.lib import clock
from portal.lib.json_types import Moment, Object, Uuid, one_of
from portal.models import Organization
from portal.observe import metrics

UNKNOWN = ConnectorCallLog.Status.UNKNOWN
# What a final entry replaces of an unknown one: everything but whose it is.
_REPLACED = [
    field.name
    for field in ConnectorCallLog._meta.concrete_fields
    if field.name not in ("id", "organization", "agent", "agent_slug")
]


@dataclass(frozen=True)
class Receipt:
    """How many entries were stored or replaced an ``unknown`` one, and how many changed nothing."""

    accepted: int
    duplicates: int


@dataclass(frozen=True)
class Entry:
    """One checked entry of contract section 4.3, with the agent it names."""

    agent: Agent
    id: UUID
    tool_name: str
    status: str
    started_at: datetime
    session_id: str = ""
    conversation_id: str = ""
    tool_call_id: str = ""
    user: dict[str, Any] | str | None = None
    surface: str = ""
    blocked_by: str = ""
    reason: str = ""
    error: str = ""
    duration_ms: float | None = None
    args: Any = None
    args_digest: str = ""
    result_bytes: int | None = None
    result: Any = None
    confirmation_id: UUID | None = None
    registry_digest: str = ""
    trace: Sequence[dict[str, Any]] = ()
    side_effects: Sequence[Any] = ()


def store(entries: Sequence[Entry], *, runtime: str) -> Receipt:
    """Store all of ``entries``, or none if the database fails."""
    try:
        receipt = _store(entries, runtime)
    except IntegrityError:
        # Two agents sent the same id at once; now the other one's row is there to be seen.
        receipt = _store(entries, runtime)
    metrics.count(measures.CALLS_REPEATED, receipt.duplicates)
    return receipt


@transaction.atomic
def _store(entries: Sequence[Entry], runtime: str) -> Receipt:
    # One batch per agent at a time: what is read below stays true until the rows are written.
    agent_ids = sorted({entry.agent.pk for entry in entries})
    list(
        Agent.objects.select_for_update(no_key=True).filter(pk__in=agent_ids).order_by("pk").values_list("pk")
    )
    rows = [_row(entry, runtime) for entry in entries]
    stored = _read_stored(rows)
    _keep_apart(rows, {pk: agent_id for pk, (agent_id, _status) in stored.items()})
    wanted = _first_or_final(rows)
    new = [row for pk, row in wanted.items() if pk not in stored]
    final = [row for pk, row in wanted.items() if _replaces(row, stored.get(pk))]
    ConnectorCallLog.objects.bulk_create(new)
    ConnectorCallLog.objects.bulk_update(final, _REPLACED, batch_size=50)
    accepted = len(new) + len(final)
    for status, number in Counter(row.status for row in [*new, *final]).items():
        metrics.count_on_commit(measures.CALLS, number, status=status)
    return Receipt(accepted=accepted, duplicates=len(rows) - accepted)


def _read_stored(rows: Iterable[ConnectorCallLog]) -> dict[UUID, tuple[UUID | None, str]]:
    """What is stored under any id that ``rows`` may get: agent and status. Read at once: between two reads another
    agent's entry could appear, and be taken for one of this agent."""
    ids = {pk for row in rows for pk in (row.pk, _own_id(row))}
    found = ConnectorCallLog.objects.filter(pk__in=ids).values_list("pk", "agent_id", "status")
    return {pk: (agent_id, status) for pk, agent_id, status in found}


def _replaces(row: ConnectorCallLog, stored: tuple[UUID | None, str] | None) -> bool:
    return stored is not None and stored[1] == UNKNOWN and row.status != UNKNOWN


def _own_id(row: ConnectorCallLog) -> UUID:
    assert row.agent_id is not None
    return uuid.uuid5(row.agent_id, str(row.pk))


def _keep_apart(rows: Iterable[ConnectorCallLog], taken: Mapping[UUID, UUID | None]) -> None:
    """Give a row whose id another agent has used already an id that follows from its own agent and that id.

    So the other agent's entry stays what it is, this one is not lost, and nobody learns that the id was taken.
    """
    owners: dict[UUID, UUID | None] = dict(taken)
    for row in rows:
        owner = owners.setdefault(row.pk, row.agent_id)
        if owner != row.agent_id:
            row.pk = _own_id(row)


def _first_or_final(rows: Iterable[ConnectorCallLog]) -> dict[UUID, ConnectorCallLog]:
    wanted: dict[UUID, ConnectorCallLog] = {}
    for row in rows:
        first = wanted.setdefault(row.pk, row)
        if first.status == UNKNOWN and row.status != UNKNOWN:
            wanted[row.pk] = row
    return wanted


def _row(entry: Entry, runtime: str) -> ConnectorCallLog:
    user = entry.user
    if isinstance(user, dict) and user.get("email"):
        # One person is found under one address, as at requests. Unlike there nothing is refused: it has happened.
        user = {**user, "email": addresses.find(user["email"]) or user["email"]}
    user_id = user if isinstance(user, str) else (user or {}).get("id")
    return ConnectorCallLog(
        id=entry.id,
        organization_id=entry.agent.organization_id,
        agent=entry.agent,
        agent_slug=entry.agent.slug,
        runtime=runtime,
        session_id=entry.session_id,
        conversation_id=entry.conversation_id,
        tool_call_id=entry.tool_call_id,
        tool_name=entry.tool_name,
        user=user,
        user_id_text=user_id or "",
        surface=entry.surface,
        status=entry.status,
        blocked_by=entry.blocked_by,
        reason=entry.reason,
        error=entry.error,
        started_at=entry.started_at,
        duration_ms=entry.duration_ms,
        args=entry.args,
        args_digest=entry.args_digest,
        result_bytes=entry.result_bytes,
        result=entry.result,
        confirmation_id=entry.confirmation_id,
        registry_digest=entry.registry_digest,
        trace=list(entry.trace),
        side_effects=list(entry.side_effects),
        received_at=clock.now(),
    )


def purge(organization: Organization, *, before: datetime, limit: int) -> int:
    """Delete at most ``limit`` of the organization's entries that started before ``before``. Returns how many."""
    old = ConnectorCallLog.objects.filter(organization=organization, started_at__lt=before)
    chosen = list(old.values_list("pk", flat=True)[:limit])
    return ConnectorCallLog.objects.filter(pk__in=chosen).delete()[0]


@dataclass(frozen=True)
class Filter:
    """Which entries; ``None`` does not restrict. ``since`` counts, ``until`` does not."""

    tool: str | None = None
    status: str | None = None
    user: str | None = None
    hook: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def find(rows: QuerySet[ConnectorCallLog], wanted: Filter) -> QuerySet[ConnectorCallLog]:
    """Those of ``rows`` that ``wanted`` describes."""
    if wanted.tool is not None:
        rows = rows.filter(tool_name=wanted.tool)
    if wanted.status is not None:
        rows = rows.filter(status=wanted.status)
    if wanted.user is not None:
        who = wanted.user
        emails = {who, addresses.find(who) or who}
        rows = rows.filter(Q(user_id_text=who) | Q(user__email__in=emails) | Q(user__name=who))
    if wanted.hook is not None:
        # JSON containment is no common ground of the two databases, but both write this text the same way.
        part = f'"hook": {json.dumps(wanted.hook)}'
        rows = rows.alias(trace_text=Cast("trace", TextField())).filter(
            Q(blocked_by=wanted.hook) | Q(trace_text__contains=part)
        )
    if wanted.since is not None:
        rows = rows.filter(started_at__gte=wanted.since)
    if wanted.until is not None:
        rows = rows.filter(started_at__lt=wanted.until)
    return rows


class CallEntry(TypedDict):
    """One entry of the call log."""

    id: Uuid
    agent: str
    session_id: str | None
    conversation_id: str | None
    tool_call_id: str | None
    tool_name: str
    user: Object | str | None
    surface: Annotated[str, one_of(SURFACES)] | None
    status: Annotated[str, one_of(ConnectorCallLog.Status.values)]
    blocked_by: str | None
    reason: str | None
    error: str | None
    started_at: Moment
    duration_ms: float | None
    args: Any
    args_digest: str | None
    args_tag: str | None
    result_bytes: int | None
    result: Any
    confirmation_id: Uuid | None
    registry_digest: str | None
    trace: list[Object]
    side_effects: list[Any]


def represent(row: ConnectorCallLog) -> CallEntry:
    """One entry as the API shows it: contract section 4.3, with ``null`` for what the runtime did not say."""
    return {
        "id": str(row.pk),
        "agent": row.agent_slug,
        "session_id": row.session_id or None,
        "conversation_id": row.conversation_id or None,
        "tool_call_id": row.tool_call_id or None,
        "tool_name": row.tool_name,
        "user": row.user,
        "surface": row.surface or None,
        "status": row.status,
        "blocked_by": row.blocked_by or None,
        "reason": row.reason or None,
        "error": row.error or None,
        "started_at": clock.rfc3339(row.started_at),
        "duration_ms": row.duration_ms,
        "args": row.args,
        "args_digest": None if digests.hides(row.args) else row.args_digest or None,
        "args_tag": digests.tag(row.organization_id, row.args_digest) if row.args_digest else None,
        "result_bytes": row.result_bytes,
        "result": row.result,
        "confirmation_id": str(row.confirmation_id) if row.confirmation_id else None,
        "registry_digest": row.registry_digest or None,
        "trace": row.trace,
        "side_effects": row.side_effects,
    }
