"""The call log over REST: runtimes write, auditors and admins read."""

from dataclasses import asdict

from django.db.models import QuerySet
from hookgate import call_ids, canonical
from rest_framework.request import Request
from rest_framework.response import Response

from hooks_app import calls
from hooks_app.api import lookups, requests
from hooks_app.api.authentication import PersonCaller, RuntimeCaller
from hooks_app.api.endpoint import Endpoint
from hooks_app.api.openapi import describe
from hooks_app.api.permits import Permit
from hooks_app.models import Agent, ConnectorCallLog
from portal import access
from portal.api.pagination import Keyset, Page
from portal.lib.problems import FieldError, Problem, invalid, not_found

TAG = "calls"
BATCH_LIMIT = 8 * 1024 * 1024  # bytes
_KEYSET: Keyset[ConnectorCallLog] = Keyset("calls", "started_at")


class CallsView(Endpoint):
    """The call log."""

    permits = {"GET": Permit(person="read"), "POST": Permit(runtime="calls")}
    body_limit = BATCH_LIMIT
    # Arguments stand three levels down in the body, and may be as deep as arguments may be.
    body_depth = canonical.MAX_DEPTH + 3

    @describe(
        "calls_list",
        "Search the call log",
        tag=TAG,
        query=requests.CallQuery,
        answers_with={200: Page[calls.CallEntry]},
        refuses={403: "role_missing", 404: "not_found"},
    )
    def get(self, request: Request) -> Response:
        """Newest first, for auditors and admins."""
        query = self.query(requests.CallQuery)
        rows = _visible(self.person)
        if query.agent is not None:
            rows = rows.filter(agent=lookups.agent(self.person, query.agent))
        wanted = calls.Filter(
            tool=query.tool,
            status=query.status,
            user=query.user,
            hook=query.hook,
            since=query.from_,
            until=query.to,
        )
        return Response(
            _KEYSET.page(
                calls.find(rows, wanted),
                cursor=query.cursor,
                limit=query.limit,
                represent=lambda found: [calls.represent(row) for row in found],
            )
        )

    @describe(
        "calls_store",
        "Store entries of the call log",
        tag=TAG,
        takes=requests.CallBatch,
        answers_with={202: calls.Receipt},
        names_runtime=True,
    )
    def post(self, request: Request) -> Response:
        """All or nothing: one bad entry refuses the batch and is named by its index."""
        name = self.runtime_name()
        body = self.body(requests.CallBatch)
        agents = _agents_of(self.runtime, [call.agent for call in body.calls])
        receipt = calls.store([_entry(call, agents[call.agent]) for call in body.calls], runtime=name)
        return Response(asdict(receipt), status=202)


class CallView(Endpoint):
    """One entry."""

    permits = {"GET": Permit(person="read")}

    @describe(
        "calls_get",
        "Read one entry of the call log",
        tag=TAG,
        answers_with={200: calls.CallEntry},
        refuses={403: "role_missing", 404: "not_found"},
    )
    def get(self, request: Request, id: str) -> Response:
        """For auditors and admins."""
        found = _visible(self.person).filter(pk=lookups.uuid(id)).first()
        if found is None:
            raise not_found()
        return Response(calls.represent(found))


def _visible(caller: PersonCaller) -> QuerySet[ConnectorCallLog]:
    """The entries that the person may read. Raises 403 ``role_missing`` for somebody who may read none at all."""
    if not access.organizations(caller.user, *access.READERS).exists():
        raise Problem(
            403, "role_missing", "Auditors and admins read the call log; ask an admin for that role."
        )
    return access.rows(ConnectorCallLog.objects.all(), caller.user, *access.READERS)


def _agents_of(caller: RuntimeCaller, references: list[str]) -> dict[str, Agent]:
    """The agent behind each reference. Raises 400 naming the index of every entry whose agent is out of reach."""
    found: dict[str, Agent] = {}
    missing: set[str] = set()
    for reference in dict.fromkeys(references):
        try:
            found[reference] = lookups.agent(caller, reference)
        except Problem:
            missing.add(reference)
    if missing:
        raise invalid(
            *(
                FieldError(f"calls[{index}].agent", "unknown_agent", "is no agent that this key reaches")
                for index, reference in enumerate(references)
                if reference in missing
            )
        )
    return found


def _entry(call: requests.Call, agent: Agent) -> calls.Entry:
    return calls.Entry(
        agent=agent,
        id=call.id,
        tool_name=call.tool_name,
        status=call.status,
        started_at=call.started_at,
        session_id=call.session_id or "",
        conversation_id=call_ids.shorten(call.conversation_id or ""),
        tool_call_id=call_ids.shorten(call.tool_call_id or ""),
        user=call.user.model_dump(exclude_unset=True)
        if isinstance(call.user, requests.CallUser)
        else call.user,
        surface=call.surface or "",
        blocked_by=call.blocked_by or "",
        reason=call.reason or "",
        error=call.error or "",
        duration_ms=call.duration_ms,
        args=call.args,
        args_digest=call.args_digest or "",
        result_bytes=call.result_bytes,
        result=call.result,
        confirmation_id=call.confirmation_id,
        registry_digest=call.registry_digest or "",
        trace=call.trace,
        side_effects=call.side_effects,
    )
