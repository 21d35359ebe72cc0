"""Confirmation requests over REST. What happens to one is decided in :mod:`hooks_app.confirmations` alone."""

from functools import partial

from django.db.models import Q, QuerySet
from hookgate import canonical
from rest_framework.request import Request
from rest_framework.response import Response

from hooks_app import confirmations
from hooks_app.api import lookups, requests
from hooks_app.api.authentication import PersonCaller
from hooks_app.api.endpoint import Endpoint
from hooks_app.api.openapi import describe
from hooks_app.api.permits import Permit
from hooks_app.api.stream_views import WaitableResponse
from hooks_app.confirmations import Initiator, NewRequest, Voter
from hooks_app.confirmations.resources import Confirmation
from hooks_app.models import ConfirmationRequest
from portal import contract
from portal.api.pagination import Keyset, Page
from portal.lib import clock
from portal.lib.problems import Problem

TAG = "confirmations"
_KEYSET: Keyset[ConfirmationRequest] = Keyset("confirmations", "created_at")
_RUNTIME = Permit(runtime="confirmations")


class ConfirmationsView(Endpoint):
    """All requests."""

    permits = {"GET": lookups.READ_CONFIRMATIONS, "POST": _RUNTIME}
    # The arguments stand one level down in the body, and may be as deep as arguments may be.
    body_depth = canonical.MAX_DEPTH + 1

    @describe(
        "confirmations_list",
        "List confirmation requests",
        tag=TAG,
        query=requests.ConfirmationQuery,
        answers_with={200: Page[Confirmation]},
        refuses={404: "not_found"},
    )
    def get(self, request: Request) -> Response:
        """Newest first. A key sees those of its agents; a person those that concern them.

        Without arguments: `excerpt` shows how they begin, and reading one request shows them whole.
        """
        query = self.query(requests.ConfirmationQuery)
        rows = lookups.confirmations_of(self.caller)
        if query.agent is not None:
            rows = rows.filter(agent=lookups.agent(self.caller, query.agent, *lookups.EVERYBODY))
        if query.status is not None:
            rows = _with_status(rows, query.status)
        return Response(
            _KEYSET.page(
                confirmations.listed(rows),
                cursor=query.cursor,
                limit=query.limit,
                represent=partial(confirmations.represent_all, people=isinstance(self.caller, PersonCaller)),
            )
        )

    @describe(
        "confirmations_create",
        "Ask people to approve a tool call",
        tag=TAG,
        takes=requests.NewConfirmation,
        answers_with={201: Confirmation, 200: Confirmation},
        refuses={
            400: "args_not_canonical",
            404: "not_found",
            409: "tool_call_conflict, halted, read_only, agent_disabled",
            422: "unknown_registry, no_eligible_approver, initiator_unknown, registry_unbuildable",
            429: "too_many_pending",
        },
        names_runtime=True,
    )
    def post(self, request: Request) -> Response:
        """201 with a new request; 200 with the same one when this call was asked before."""
        body = self.body(requests.NewConfirmation)
        agent, head = lookups.governed(self.caller, body.agent)
        made, is_new = confirmations.create(
            agent=agent,
            head=head,
            runtime=self.runtime_name(),
            request=_proposal(body, contract.read(request.headers.get(contract.HEADER))),
            reach=lookups.confirmations_of(self.caller),
            actor=self.runtime.actor,
        )
        if is_new:
            return Response(confirmations.represent_new(made), status=201)
        return Response(confirmations.represent(made, people=False), status=200)


def _proposal(body: requests.NewConfirmation, version: int) -> NewRequest:
    initiator = body.initiator
    return NewRequest(
        conversation_id=body.conversation_id,
        tool_call_id=body.tool_call_id,
        tool_name=body.tool_name,
        tool_args=body.tool_args,
        registry_digest=body.registry_digest,
        hook=body.hook,
        initiator=Initiator(id=initiator.id, name=initiator.name, email=initiator.email)
        if initiator
        else None,
        summary=body.summary,
        timeout_seconds=body.timeout_seconds,
        channel=body.channel,
        policy=body.policy,
        parent=body.parent,
        contract=version,
    )


def _with_status(rows: QuerySet[ConfirmationRequest], status: str) -> QuerySet[ConfirmationRequest]:
    """The requests that read as ``status`` now: an overdue pending one is expired, swept or not."""
    overdue = Q(status="pending", expires_at__lte=clock.now())
    if status == "pending":
        return rows.filter(status="pending").exclude(overdue)
    if status == "expired":
        return rows.filter(Q(status="expired") | overdue)
    return rows.filter(status=status)


class ConfirmationView(Endpoint):
    """One request."""

    permits = {"GET": lookups.READ_CONFIRMATIONS}

    @describe(
        "confirmations_get",
        "Read one request, or wait for its decision",
        tag=TAG,
        query=requests.WaitQuery,
        answers_with={200: Confirmation},
        refuses={404: "not_found", 429: "too_many_streams"},
    )
    def get(self, request: Request, id: str) -> Response:
        """With `wait`, answers as soon as the status is not `pending`, at the latest at `expires_at`.

        Who waits counts like a stream: 429 with `Retry-After` where a caller holds too many of both.
        """
        self.query(requests.WaitQuery)
        return WaitableResponse(lookups.confirmation_resource(self.caller, id), self.caller)


class RespondView(Endpoint):
    """A person's decision."""

    permits = {"POST": Permit(person="decide")}

    @describe(
        "confirmations_respond",
        "Approve or reject",
        tag=TAG,
        takes=requests.Response,
        answers_with={200: Confirmation},
        refuses={
            400: "reason_required",
            403: "not_an_approver, self_approval, channel_only, edit_not_allowed",
            404: "not_found",
            409: "already_voted, already_decided, expired",
        },
    )
    def post(self, request: Request, id: str) -> Response:
        """The same person's same decision again changes nothing and is 200."""
        with self.unknown_first(lambda: lookups.check_votable(self.person, id)):
            body = self.body(requests.Response)
            if body.args is not None:
                raise Problem(
                    403, "edit_not_allowed", "The policy does not let approvers change the arguments."
                )
        decided = confirmations.decide(
            request_id=lookups.uuid(id),
            voter=Voter(user=self.person.user),
            decision=body.decision,
            reason=body.reason,
            may_know=lambda _: lookups.check_votable(self.person, id),
        )
        return _resource(decided, people=True)


class ConsumeView(Endpoint):
    """The single use of an approval."""

    permits = {"POST": _RUNTIME}

    @describe(
        "confirmations_consume",
        "Use an approval, immediately before the tool runs",
        tag=TAG,
        takes=requests.Consumption,
        answers_with={200: Confirmation},
        refuses={
            404: "not_found",
            409: "already_consumed, not_approved, approval_lapsed, args_mismatch, halted, read_only, agent_disabled",
        },
    )
    def post(self, request: Request, id: str) -> Response:
        """The same `attempt` again is 200 again until an outcome is reported; another one is 409."""
        found, reach = lookups.own_confirmation(self.runtime, id)
        with self.unknown_first(lambda: lookups.check_reach(self.runtime, id)):
            body = self.body(requests.Consumption)
        consumed = confirmations.consume(
            request=found,
            args_digest=body.args_digest,
            attempt=body.attempt,
            actor=self.runtime.actor,
            reach=reach,
        )
        answer = _resource(consumed)
        # Whose use it is: a runtime runs the tool on its own attempt only.
        answer["Hookgate-Attempt"] = str(consumed.attempt)
        return answer


class OutcomeView(Endpoint):
    """How the approved call ended."""

    permits = {"POST": _RUNTIME}

    @describe(
        "confirmations_outcome",
        "Report how the call ended",
        tag=TAG,
        takes=requests.Outcome,
        answers_with={200: Confirmation},
        refuses={404: "not_found", 409: "outcome_conflict, not_consumed"},
    )
    def post(self, request: Request, id: str) -> Response:
        """The same again is 200; `unknown` may become one of the others."""
        found, reach = lookups.own_confirmation(self.runtime, id)
        with self.unknown_first(lambda: lookups.check_reach(self.runtime, id)):
            body = self.body(requests.Outcome)
        reported = confirmations.report_outcome(
            request=found, status=body.status, detail=body.detail, actor=self.runtime.actor, reach=reach
        )
        return _resource(reported)


class CancelView(Endpoint):
    """The runtime no longer wants the call."""

    permits = {"POST": _RUNTIME}

    @describe(
        "confirmations_cancel",
        "Cancel a pending request",
        tag=TAG,
        takes=requests.Nothing,
        answers_with={200: Confirmation},
        refuses={404: "not_found", 409: "already_decided"},
    )
    def post(self, request: Request, id: str) -> Response:
        """The body may be left out."""
        found, reach = lookups.own_confirmation(self.runtime, id)
        with self.unknown_first(lambda: lookups.check_reach(self.runtime, id)):
            self.body(requests.Nothing)
        return _resource(confirmations.cancel(request=found, actor=self.runtime.actor, reach=reach))


def _resource(request: ConfirmationRequest, *, people: bool = False) -> Response:
    return Response(confirmations.represent(request, people=people))
