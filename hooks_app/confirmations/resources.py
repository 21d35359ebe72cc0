"""The confirmation as the API shows it (contract 4.1)."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Prefetch, QuerySet, prefetch_related_objects

from channels_app.models import Delivery
from channels_app.outbox import deliveries
from hooks_app import digests
from hooks_app.confirmations import appearance, rows
from hooks_app.models import Agent, ConfirmationRequest, Decision
from portal.lib import clock

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


def represent(request: ConfirmationRequest, *, people: bool = True) -> dict[str, Any]:
    """The resource: arguments redacted by the paths frozen with it; in addition ``url`` and what was reported.

    ``people``: who reads is a person, and gets no digest where a part of the arguments is hidden.
    """
    sent = represent_deliveries(request)
    return _resource(request, appearance.votes(request), sent, people=people, whole=True)


def represent_new(request: ConfirmationRequest) -> dict[str, Any]:
    """The resource of a request that was made just now, for its runtime: nobody has decided, and its deliveries are in
    hand."""
    return _resource(request, [], vars(request)[_HELD], people=False, whole=True)


def represent_deliveries(request: ConfirmationRequest) -> list[dict[str, Any]]:
    """The resource's ``deliveries`` alone. No card was ever made for a request of an agent that asks in the inbox."""
    if request.mode == Agent.Mode.INLINE_ONLY:
        return []
    topic = rows.topic(request.pk)
    return deliveries.represent([topic])[topic]


def keep_deliveries(request: ConfirmationRequest, sent: Sequence[Delivery]) -> None:
    """These are all deliveries of a request that was made just now."""
    vars(request)[_HELD] = [deliveries.represent_one(row) for row in sent]


def represent_all(requests: Sequence[ConfirmationRequest], *, people: bool = True) -> list[dict[str, Any]]:
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
    sent: list[dict[str, Any]],
    *,
    people: bool,
    whole: bool,
) -> dict[str, Any]:
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
        "policy": {key: request.policy[key] for key in ("slug", "scope", "quorum")},
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


def _use(request: ConfirmationRequest) -> dict[str, Any]:
    """What became of the request after its end: why nobody was asked, when it was used, what came of it."""
    return {
        "refused_by": request.refused_by,
        "grant": str(request.grant) if request.grant else None,
        "start_by": clock.rfc3339(request.start_by),
        "consumed_at": clock.rfc3339(request.consumed_at),
        "outcome": request.outcome,
        "outcome_detail": request.outcome_detail,
        "outcome_at": clock.rfc3339(request.outcome_at),
    }


def _approved_args(request: ConfirmationRequest) -> Any:
    if request.approved_args is None:
        return None
    return appearance.redacted(request, request.approved_args)


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "decision": decision.decision,
        "user": decision.user.username if decision.user else None,
        "identity": decision.identity_facts,
        "reason": decision.reason,
        "at": clock.rfc3339(decision.at),
        **({} if decision.counts else {"counts": False}),
    }
