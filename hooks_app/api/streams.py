"""What flows down the event streams: who may listen, to what, and which events a change makes.

The views here say who may listen; :mod:`hooks_app.api.waiting` keeps the connection and sends.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Max, Q
from rest_framework.request import Request
from rest_framework.response import Response

from hooks_app import halting, registry
from hooks_app.api import lookups
from hooks_app.api.authentication import Caller, RuntimeCaller
from hooks_app.api.endpoint import Endpoint
from hooks_app.api.openapi import describe
from hooks_app.api.permits import Permit
from hooks_app.confirmations import status_now
from hooks_app.models import Agent, ConfirmationRequest, RegistryRevision
from portal import access
from portal.lib import clock

# A request that ended this long ago has been told to everybody who listens.
ENDED_WINDOW = timedelta(seconds=60)
# No request is open longer than the longest time-out of a policy (three days).
OPEN_WINDOW = timedelta(days=4)


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    name: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Ticket:
    """What a caller may listen to. ``holder`` is whom an open stream counts against."""

    holder: str
    topics: tuple[str, ...]
    key: Any
    tells_confirmations: bool = False


class TicketResponse(Response):
    """The answer of a stream's view; its body is never sent."""

    def __init__(self, ticket: Ticket) -> None:
        super().__init__({})
        self.ticket = ticket


class WaitableResponse(Response):
    """What is answered at once, and may be waited for. ``holder`` is whom a wait counts against."""

    def __init__(self, data: dict[str, Any], caller: Caller) -> None:
        super().__init__(data)
        self.holder = _holder(caller)


def _holder(caller: Caller) -> str:
    return f"key:{caller.key.pk}" if isinstance(caller, RuntimeCaller) else f"user:{caller.user.pk}"


class AgentEventsView(Endpoint):
    """The events of one agent."""

    permits = {"GET": Permit(runtime="registry", person="read")}

    @describe(
        "agent_events",
        "Follow an agent: registry, state and requests as they change",
        tag="registry",
        answers_with={
            200: "Server-sent events `registry`, `state` and `confirmation`; a comment when it is quiet."
        },
        refuses={404: "not_found", 429: "too_many_streams"},
    )
    def get(self, request: Request, agent: str) -> Response:
        """`registry` with null members: it can't be built now; fetching it says why.

        `confirmation` events need the scope `confirmations`, and go to runtimes alone.
        """
        row = lookups.agent(self.caller, agent)
        return TicketResponse(
            Ticket(
                holder=_holder(self.caller),
                topics=(f"agent:{row.pk}", f"organization:{row.organization_id}"),
                key=row.pk,
                tells_confirmations=isinstance(self.caller, RuntimeCaller)
                and "confirmations" in self.caller.scopes,
            )
        )


class InboxEventsView(Endpoint):
    """Tells a person's inbox page that it is out of date."""

    permits = {"GET": Permit(person="read")}
    schema = None  # of the page, not of the API

    def get(self, request: Request) -> Response:
        """`inbox` whenever a request changes in an organization of which the person is a member."""
        rows = access.organizations(self.person.user, *access.EVERYBODY)
        found = frozenset(rows.values_list("pk", flat=True))
        return TicketResponse(
            Ticket(
                holder=_holder(self.caller), topics=tuple(f"inbox:{pk}" for pk in sorted(found)), key=found
            )
        )


@dataclass(frozen=True)
class AgentNow:
    """An agent as its stream shows it. ``confirmations``: status by id, of those open or just ended."""

    registry: dict[str, Any]
    state: dict[str, Any]
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
    revisions = registry.served(agents)
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
        state=halting.state(agent, agent.organization),
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
