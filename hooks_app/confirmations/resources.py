"""The confirmation as the API shows it (contract 4.1)."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NotRequired

from django.db.models import Prefetch, QuerySet, prefetch_related_objects
from pydantic import Field
from typing_extensions import TypedDict

from channels_app.models import Delivery
from channels_app.outbox import deliveries
from channels_app.outbox.deliveries import DeliveryEntry
from hooks_app import digests
from hooks_app.confirmations import appearance, rows
from hooks_app.models import Agent, ConfirmationRequest, Decision
from portal.lib import clock
from portal.lib.json_types import Moment, Object, Uuid, one_of


class Initiator(TypedDict):
    """The end user for whom the agent acts."""

    id: str | None
    name: NotRequired[str | None]
    email: NotRequired[str | None]


class DecisionIdentity(TypedDict):
    """The account that tapped."""

    channel: str
    external_id: str
    name: str


class DecisionEntry(TypedDict):
    """One person's decision. ``counts`` is there only where it is false: at the last vote, whoever cast it might no
    longer decide."""

    decision: Annotated[str, one_of(("approve", "reject"))]
    user: str | None
    identity: DecisionIdentity | None
    reason: str | None
    at: Moment
    counts: NotRequired[bool]


class PolicyFacts(TypedDict):
    """The policy that the request froze."""

    slug: str
    scope: str
    quorum: int


class Use(TypedDict):
    """What became of a request after its end: why nobody was asked, when it was used, what came of it."""

    refused_by: str | None
    grant: Uuid | None
    start_by: Moment | None
    consumed_at: Moment | None
    outcome: Annotated[str, one_of(ConfirmationRequest.Outcome.values)] | None
    outcome_detail: str | None
    outcome_at: Moment | None


class Confirmation(Use):
    """A confirmation request."""

    id: Uuid
    status: Annotated[str, one_of(ConfirmationRequest.Status.values)]
    agent: str
    conversation_id: str
    tool_call_id: str
    tool_name: str
    tool_args: Annotated[Object | None, Field(description="Redacted; null in lists.")]
    excerpt: Annotated[
        str | None,
        Field(description="The first 160 characters of the redacted arguments as canonical JSON, as asked."),
    ]
    requested_digest: Annotated[
        str | None,
        Field(description="Null for people where a part of the arguments is redacted; so is `args_digest`."),
    ]
    args_digest: str | None
    args_tag: Annotated[str, Field(description="Of the arguments: the same tag, the same arguments.")]
    approved_args: Annotated[Object | None, Field(description="Null in lists.")]
    hook: str
    initiator: Initiator | None
    initiator_matched: Annotated[bool, Field(description="Whether the initiator is known to the portal.")]
    summary: str | None
    mode: Annotated[str, one_of(Agent.Mode.values)]
    policy: PolicyFacts
    stage: Any
    decisions: list[DecisionEntry]
    created_at: Moment
    expires_at: Moment
    ended_at: Moment | None
    reason: str | None
    deliveries: list[DeliveryEntry]
    url: Annotated[str, Field(description="The page where a signed-in person sees the whole request.")]


# Where a row keeps its deliveries, in the form of the API, while they are in hand.
_HELD = "_deliveries"


def prefetched(queryset: QuerySet[ConfirmationRequest]) -> QuerySet[ConfirmationRequest]:
    """``queryset`` with what :func:`represent` reads of each row."""
    return queryset.select_related("agent", "organization").prefetch_related(_decisions())


def listed(queryset: QuerySet[ConfirmationRequest]) -> QuerySet[ConfirmationRequest]:
    """``queryset`` with what a list shows of each row: no arguments, which are read and decrypted one by one."""
    return prefetched(queryset).defer("args", "approved_args")


def _decisions() -> Any:
    """Decisions with who made them, in one statement for however many."""
    return Prefetch("decisions", queryset=Decision.objects.select_related("user"))


def represent(request: ConfirmationRequest, *, people: bool = True) -> Confirmation:
    """The resource: arguments redacted by the paths frozen with it; in addition ``url`` and what was reported.

    ``people``: who reads is a person, and gets no digest where a part of the arguments is hidden.
    """
    sent = represent_deliveries(request)
    return _resource(request, appearance.votes(request), sent, people=people, whole=True)


def represent_new(request: ConfirmationRequest) -> Confirmation:
    """The resource of a request that was made just now, for its runtime: nobody has decided, and its deliveries are in
    hand."""
    return _resource(request, [], vars(request)[_HELD], people=False, whole=True)


def represent_deliveries(request: ConfirmationRequest) -> list[DeliveryEntry]:
    """The resource's ``deliveries`` alone. No card was ever made for a request of an agent that asks in the inbox."""
    if request.mode == Agent.Mode.INLINE_ONLY:
        return []
    topic = rows.topic(request.pk)
    return deliveries.represent([topic])[topic]


def keep_deliveries(request: ConfirmationRequest, sent: Sequence[Delivery]) -> None:
    """These are all deliveries of a request that was made just now."""
    vars(request)[_HELD] = [deliveries.represent_one(row) for row in sent]


def represent_all(requests: Sequence[ConfirmationRequest], *, people: bool = True) -> list[Confirmation]:
    """The resources of several requests as a list has them: without arguments, their decisions and deliveries read at
    once."""
    prefetch_related_objects(requests, _decisions())
    topics = {request.pk: rows.topic(request.pk) for request in requests}
    shown = deliveries.represent(list(topics.values()))
    return [
        _resource(request, request.decisions.all(), shown[topics[request.pk]], people=people, whole=False)
        for request in requests
    ]


def _resource(
    request: ConfirmationRequest,
    decisions: Iterable[Decision],
    sent: list[DeliveryEntry],
    *,
    people: bool,
    whole: bool,
) -> Confirmation:
    """``whole``: with its arguments, which a list doesn't read."""
    status = appearance.status_now(request)
    expired_unswept = status != request.status
    hidden = people and request.is_redacted
    return {
        "id": str(request.pk),
        "status": status,
        "agent": request.agent.slug,
        "conversation_id": request.conversation_id,
        "tool_call_id": request.tool_call_id,
        "tool_name": request.tool_name,
        "tool_args": appearance.redacted(request, request.args) if whole else None,
        "requested_digest": None if hidden else request.requested_digest,
        "args_digest": None if hidden else request.args_digest,
        "args_tag": digests.tag(request.organization_id, request.args_digest),
        "excerpt": request.excerpt,
        "approved_args": _approved_args(request) if whole else None,
        "hook": request.hook,
        "initiator": request.initiator,
        "initiator_matched": request.initiator_user_id is not None,
        "summary": request.summary,
        "mode": request.mode,
        "policy": _policy(request),
        "stage": None,
        "decisions": [_decision(decision) for decision in decisions],
        "created_at": clock.rfc3339(request.created_at),
        "expires_at": clock.rfc3339(request.expires_at),
        "ended_at": clock.rfc3339(request.expires_at if expired_unswept else request.ended_at),
        "reason": request.reason,
        **_use(request),
        "deliveries": sent,
        "url": appearance.url(request),
    }


def _use(request: ConfirmationRequest) -> Use:
    return {
        "refused_by": request.refused_by,
        "grant": str(request.grant) if request.grant else None,
        "start_by": clock.rfc3339(request.start_by),
        "consumed_at": clock.rfc3339(request.consumed_at),
        "outcome": request.outcome,
        "outcome_detail": request.outcome_detail,
        "outcome_at": clock.rfc3339(request.outcome_at),
    }


def _policy(request: ConfirmationRequest) -> PolicyFacts:
    frozen = request.policy
    return {"slug": frozen["slug"], "scope": frozen["scope"], "quorum": frozen["quorum"]}


def _approved_args(request: ConfirmationRequest) -> Any:
    if request.approved_args is None:
        return None
    return appearance.redacted(request, request.approved_args)


def _decision(decision: Decision) -> DecisionEntry:
    shown: DecisionEntry = {
        "decision": decision.decision,
        "user": decision.user.username if decision.user else None,
        "identity": decision.identity_facts,
        "reason": decision.reason,
        "at": clock.rfc3339(decision.at),
    }
    if not decision.counts:
        shown["counts"] = False
    return shown
