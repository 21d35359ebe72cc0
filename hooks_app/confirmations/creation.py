"""Asking: a tool call becomes a request, once."""

import math
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet
from hookgate import redaction

from channels_app import deliveries, identities
from hooks_app import approval_cards, digests, eligibility, excerpts, policies, registry, turned_away
from hooks_app.confirmations import proposals, routing, rows, story, switches, transitions
from hooks_app.confirmations.proposals import NewRequest
from hooks_app.confirmations.routing import Route
from hooks_app.models import Agent, ConfirmationRequest, Stage
from hooks_app.models.policies import Scope
from portal import contract
from portal.audit import Actor
from portal.lib import clock
from portal.lib.problems import FieldError, Problem, invalid
from portal.models import User

# Seconds; a runtime that was told "too many" asks again after at most this long.
MAX_RETRY_AFTER = 30


class TooManyPending(Problem):
    """429: as many requests of the agent wait as may."""

    def __init__(self, detail: str, retry_after: float) -> None:
        super().__init__(429, "too_many_pending", detail, retry_after=retry_after)


def create(
    *,
    agent: Agent,
    runtime: str,
    request: NewRequest,
    reach: QuerySet[ConfirmationRequest] | None = None,
    actor: Actor | None = None,
) -> tuple[ConfirmationRequest, bool]:
    """Make the request for one tool call, or find the one that was made for it; ``True`` says that it is new.

    ``reach`` holds the rows that the caller may name as ``parent`` (default: the agent's own). Raises
    :class:`Problem` with the contract's codes (section 4.1). Two calls at once for one tool call make one row and one
    set of cards: the agent's row is locked before looking.
    """
    digest = proposals.check(request)
    request = proposals.shortened(request)
    agent = Agent.objects.select_related("organization", "owner").get(pk=agent.pk)
    found = _attach(agent, request, digest)
    if found is not None:
        story.asked_again(found)
        return found, False
    refusal = switches.refusal(agent, writes=False)
    if refusal:
        raise refusal
    route = routing.find(agent, request)
    _refuse(agent, request, route)
    row = _draft(agent, runtime, request, route, digest)
    row.parent = _parent(request, agent, reach)
    stage = _stage(row)
    _check_people(row, stage, by_tap=bool(route.channels))
    try:
        return _make(agent, request, digest, row, stage, route, actor)
    except TooManyPending:
        # Outside the transaction, which is undone.
        turned_away.note(agent, allowed=route.max_pending)
        raise


def _make(
    agent: Agent,
    request: NewRequest,
    digest: str,
    row: ConfirmationRequest,
    stage: Stage,
    route: Route,
    actor: Actor | None,
) -> tuple[ConfirmationRequest, bool]:
    with transaction.atomic():
        # Held to the end: it makes the look-up, the count and the insert below one step per agent.
        Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
        found = _attach(agent, request, digest)
        if found is not None:
            story.asked_again(found)
            return found, False
        _insert(row, stage, route, actor=actor)
    return row, True


def _attach(agent: Agent, request: NewRequest, digest: str) -> ConfirmationRequest | None:
    rows_of_conversation = ConfirmationRequest.objects.select_related(
        "agent", "organization", "initiator_user"
    ).filter(agent=agent, conversation_id=request.conversation_id)
    row = rows_of_conversation.filter(tool_call_id=request.tool_call_id).first()
    if row is None:
        return _attach_older(rows_of_conversation, request, digest)
    if not _is_same(row, request, digest):
        raise Problem(
            409,
            "tool_call_conflict",
            "This tool_call_id was asked before in this conversation with another tool, other arguments or another"
            " initiator; use a new one.",
        )
    return row


def _attach_older(
    rows_of_conversation: QuerySet[ConfirmationRequest], request: NewRequest, digest: str
) -> ConfirmationRequest | None:
    """What a delegate asked through a runtime of before paths, which sent the call's own id alone."""
    if request.older_id is None:
        return None
    row = rows_of_conversation.filter(
        tool_call_id=request.older_id, contract__lt=contract.WITH_PATHS, tool_name=request.tool_name
    ).first()
    return row if row is not None and _is_same(row, request, digest) else None


def _is_same(row: ConfirmationRequest, request: NewRequest, digest: str) -> bool:
    asked = (request.tool_name, digest, request.initiator_json())
    return asked == (row.tool_name, row.requested_digest, proposals.normal(row.initiator))


def _refuse(agent: Agent, request: NewRequest, route: Route) -> None:
    refusal = switches.refusal(agent, writes=route.writes)
    if refusal:
        raise refusal
    if not registry.was_served(agent, request.registry_digest):
        raise Problem(
            422, "unknown_registry", "This agent was never served a registry with this registry_digest."
        )


def _parent(
    request: NewRequest, agent: Agent, reach: QuerySet[ConfirmationRequest] | None
) -> ConfirmationRequest | None:
    if request.parent is None:
        return None
    rows_in_reach = ConfirmationRequest.objects.filter(agent=agent) if reach is None else reach
    found = rows_in_reach.filter(pk=request.parent, organization=agent.organization_id).first()
    if found is None:
        raise invalid(FieldError("parent", "unknown", "There is no such request in your reach."))
    return found


def _draft(agent: Agent, runtime: str, request: NewRequest, route: Route, digest: str) -> ConfirmationRequest:
    """The row, not yet saved and without its times."""
    return ConfirmationRequest(
        organization=agent.organization,
        agent=agent,
        runtime=runtime[:100],
        conversation_id=request.conversation_id,
        tool_call_id=request.tool_call_id,
        contract=request.contract,
        tool_name=request.tool_name,
        args=request.tool_args,
        excerpt=excerpts.of(request.tool_args, route.redact),
        redact=route.redact,
        is_redacted=redaction.redact(request.tool_args, route.redact) != request.tool_args,
        writes=route.writes,
        requested_digest=digest,
        args_digest=digest,
        hook=request.hook,
        registry_digest=request.registry_digest,
        initiator=request.initiator_json(),
        initiator_user=_initiator_user(agent, request),
        summary=request.summary or None,
        mode=route.mode,
        policy=route.policy,
    )


def _initiator_user(agent: Agent, request: NewRequest) -> User | None:
    """The active member whom the initiator's e-mail names, else the one whom the runtime's own id is bound to.

    An e-mail that several members share names nobody.
    """
    if request.initiator is None:
        return None
    members = User.objects.filter(is_active=True, memberships__organization=agent.organization_id)
    if request.initiator.email:
        by_email = list(members.filter(email=request.initiator.email)[:2])
        if len(by_email) == 1:
            return by_email[0]
    bound = identities.find_runtime_user(agent.organization, request.initiator.id)
    return members.filter(pk=bound.user_id).first() if bound else None


def _stage(row: ConfirmationRequest) -> Stage:
    return Stage(
        request=row,
        number=1,
        scope=row.policy["scope"],
        group=policies.group_id(row.policy),
        quorum=row.policy["quorum"],
        reject_quorum=row.policy["reject_quorum"],
    )


def _check_people(row: ConfirmationRequest, stage: Stage, *, by_tap: bool) -> None:
    """Refuse a request that nobody could approve: it would only run into its deadline."""
    if row.policy["require_known_initiator"] and row.initiator_user is None:
        raise Problem(
            422,
            "initiator_unknown",
            f"The policy {row.policy['slug']} wants an initiator who is an active member: send the e-mail of one, or"
            " bind the runtime's user id to one.",
        )
    if stage.scope == Scope.INITIATOR and row.initiator_user is None:
        raise Problem(
            422,
            "initiator_unknown",
            "The policy lets the initiator decide, and the initiator is no active member: send the e-mail of one, or"
            " bind the runtime's user id to one.",
        )
    if stage.scope == Scope.CHANNEL_MEMBERS:
        if not by_tap:
            raise Problem(
                422,
                "no_eligible_approver",
                "The policy lets the members of a chat decide, and no card is sent.",
            )
        return
    able = eligibility.count(row, stage)
    if able < stage.quorum:
        raise Problem(
            422,
            "no_eligible_approver",
            f"The policy {row.policy['slug']} needs {stage.quorum} to approve, and {able} may.",
        )


def _insert(row: ConfirmationRequest, stage: Stage, route: Route, *, actor: Actor | None) -> None:
    now = clock.now()
    _check_room(row, route, now)
    row.created_at = now
    row.expires_at = now + timedelta(seconds=route.timeout_seconds)
    row.save(force_insert=True)
    # Before the cards, so that the lines of the log come in this order.
    story.asked(row)
    stage.opened_at = now
    stage.save(force_insert=True)
    for channel in route.channels:
        deliveries.enqueue(
            channel=channel,
            topic=rows.topic(row.pk),
            card=approval_cards.build(row, language=channel.language),
            send_before=row.expires_at,
        )
    transitions.record(
        row,
        "confirmation.created",
        actor=actor or rows.runtime_actor(row),
        data={
            "policy": row.policy["slug"],
            "mode": row.mode,
            "channels": [channel.slug for channel in route.channels],
            **digests.recorded(row.organization_id, row.args_digest, is_redacted=row.is_redacted),
            "initiator": (row.initiator or {}).get("id"),
        },
    )
    rows.wake(row)


def _check_room(row: ConfirmationRequest, route: Route, now: datetime) -> None:
    waiting = ConfirmationRequest.objects.filter(
        agent=row.agent, status=ConfirmationRequest.Status.PENDING, expires_at__gt=now
    ).order_by("expires_at")
    soonest = list(waiting.values_list("expires_at", flat=True)[: route.max_pending])
    if len(soonest) >= route.max_pending:
        seconds = math.ceil((soonest[0] - now).total_seconds())
        raise TooManyPending(
            f"{len(soonest)} requests of this agent wait for people; its limit is {route.max_pending}.",
            max(1, min(seconds, MAX_RETRY_AFTER)),
        )
