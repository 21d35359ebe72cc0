"""What flows down the event streams: which events a change makes.

:mod:`hooks_app.api.stream_views` says who may listen; :mod:`hooks_app.live.waiting` keeps the connection and sends.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Max, Q

from hooks_app import switches
from hooks_app.api.stream_views import Ticket
from hooks_app.confirmations import status_now
from hooks_app.models import Agent, ConfirmationRequest, RegistryRevision
from hooks_app.registry import heads
from portal.lib import clock

# A request that ended this long ago has been told to everybody who listens.
ENDED_WINDOW = timedelta(seconds=60)
# No request is open longer than the longest time-out of a policy (three days).
OPEN_WINDOW = timedelta(days=4)


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class AgentNow:
    """An agent as its stream shows it. ``confirmations``: status by id, of those open or just ended."""

    registry: dict[str, Any]
    state: switches.RegistryState
    confirmations: dict[str, str]
    turns_at: datetime | None


@dataclass(frozen=True)
class InboxNow:
    """What an inbox is made of, to be compared."""

    content: tuple[Any, ...]
    turns_at: datetime | None = None


def read_agents(keys: Sequence[UUID]) -> Mapping[UUID, AgentNow]:
    """The agents as they are now, by id, in three reads. An agent that is gone is missing."""
    now = clock.now()
    agents = list(Agent.objects.select_related("organization").filter(pk__in=keys))
    requests: dict[UUID, list[ConfirmationRequest]] = {}
    for row in (
        ConfirmationRequest.objects.filter(agent__in=keys)
        .filter(Q(status="pending") | Q(ended_at__gte=now - ENDED_WINDOW))
        .only("pk", "agent_id", "status", "expires_at")
    ):
        requests.setdefault(row.agent_id, []).append(row)
    revisions = heads.served(agents)
    return {
        agent.pk: _compose(agent, requests.get(agent.pk, []), revisions.get(agent.pk), now)
        for agent in agents
    }


def _compose(
    agent: Agent,
    requests: list[ConfirmationRequest],
    revision: RegistryRevision | None,
    now: datetime,
) -> AgentNow:
    ends = [row.expires_at for row in requests if row.status == "pending"]
    ends += [row.halt_until for row in (agent, agent.organization) if row.halted and row.halt_until]
    return AgentNow(
        registry={
            "revision": revision and revision.number,
            "digest": revision and revision.digest,
        },
        state=switches.state(agent, agent.organization),
        confirmations={str(row.pk): status_now(row) for row in requests},
        turns_at=min((end for end in ends if end > now), default=None),
    )


def read_inboxes(keys: Sequence[frozenset[UUID]]) -> Mapping[frozenset[UUID], InboxNow]:
    """What the inboxes of these sets of organizations are made of."""
    by_organization = {pk: _read_organization(pk) for pk in frozenset[UUID]().union(*keys)}
    return {key: InboxNow(tuple(by_organization[pk] for pk in sorted(key))) for key in keys}


def _read_organization(pk: UUID) -> tuple[Any, ...]:
    rows = ConfirmationRequest.objects.filter(organization=pk, created_at__gte=clock.now() - OPEN_WINDOW)
    latest = rows.aggregate(Max("ended_at"), Max("consumed_at"), Max("outcome_at"))
    pending = rows.filter(status="pending").order_by("pk").values_list("pk", "votes")
    return (tuple(pending), *latest.values())


def agent_opening(now: AgentNow) -> Iterator[Event]:
    """The events that greet a listener."""
    yield Event("registry", now.registry)
    yield Event("state", now.state)


def agent_changes(before: AgentNow, now: AgentNow, ticket: Ticket) -> Iterator[Event]:
    """The events that lead from ``before`` to ``now``."""
    if now.registry != before.registry:
        yield Event("registry", now.registry)
    if now.state != before.state:
        yield Event("state", now.state)
    if ticket.tells_confirmations:
        for id, status in now.confirmations.items():
            if before.confirmations.get(id) != status:
                yield Event("confirmation", {"id": id, "status": status})


def inbox_opening(now: InboxNow) -> Iterator[Event]:
    """Nothing: the page has just been drawn."""
    return iter(())


def inbox_changes(before: InboxNow, now: InboxNow, ticket: Ticket) -> Iterator[Event]:
    """One event, whatever has changed."""
    if now.content != before.content:
        yield Event("inbox", {})
