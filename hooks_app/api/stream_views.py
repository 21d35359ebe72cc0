"""Who may listen to an event stream, and to what. The streams themselves are :mod:`hooks_app.live`'s."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from hooks_app.api import lookups
from hooks_app.api.authentication import Caller, RuntimeCaller
from hooks_app.api.endpoint import Endpoint
from hooks_app.api.openapi import describe
from hooks_app.api.permits import Permit
from portal import access


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

    def __init__(self, data: Mapping[str, Any], caller: Caller) -> None:
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
