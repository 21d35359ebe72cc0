"""Asking: a tool call becomes a request, once."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from channels_app.models import Identity
from channels_app.outbox import deliveries
from hooks_app import digests, excerpts, switches
from hooks_app.approvers import eligibility, policies
from hooks_app.confirmations import (
    approval_cards,
    confirmation_log,
    proposals,
    resources,
    routing,
    rows,
    transitions,
    turned_away,
)
from hooks_app.confirmations.proposals import Arguments, NewRequest
from hooks_app.confirmations.routing import Route
from hooks_app.models import Agent, ConfirmationRequest, RegistryHead, Stage
from hooks_app.models.policies import Scope
from hooks_app.registry import heads
from portal import contract
from portal.audit import Actor
from portal.lib import clock
from portal.lib.composed import Composed, Parameter, remember
from portal.lib.problems import FieldError, Problem, invalid
from portal.models import User

# Seconds; a runtime that was told "too many" asks again after at most this long.
MAX_RETRY_AFTER = 30


class TooManyPending(Problem):
    """429: as many requests of the agent wait as may."""

    def __init__(self, detail: str, retry_after: float) -> None:
        super().__init__(429, "too_many_pending", detail, retry_after=retry_after)


@dataclass(frozen=True)
class _Draft:
    """A request that nothing speaks against, not yet stored."""

    row: ConfirmationRequest
    stage: Stage
    route: Route


def create(
    *,
    agent: Agent,
    runtime: str,
    request: NewRequest,
    head: RegistryHead | None = None,
    reach: QuerySet[ConfirmationRequest] | None = None,
    actor: Actor | None = None,
) -> tuple[ConfirmationRequest, bool]:
    """Make the request for one tool call, or find the one that was made for it; ``True`` says that it is new.

    ``head`` is the agent's, if it was read in this very request (:func:`registry.heads`). ``reach`` holds the rows that
    the caller may name as ``parent`` (default: the agent's own). Raises :class:`Problem` with the contract's codes
    (section 4.1). Two calls at once for one tool call make one row and one set of cards: the agent's row is locked
    before looking. A call that was asked for before finds its request whatever would speak against a new one.
    """
    arguments = proposals.check(request)
    request = proposals.shortened(request)
    try:
        draft = _draft_for(_governing(agent, head), runtime, request, arguments, reach)
    except Problem:
        found = _attach(agent.pk, request, arguments)
        if found is None:
            raise
        confirmation_log.asked_again(found)
        return found, False
    try:
        return _make(request, arguments, draft, actor)
    except TooManyPending:
        # Outside the transaction, which is undone.
        turned_away.note(agent, allowed=draft.route.max_pending)
        raise


def _draft_for(
    head: RegistryHead,
    runtime: str,
    request: NewRequest,
    arguments: Arguments,
    reach: QuerySet[ConfirmationRequest] | None,
) -> _Draft:
    route = routing.find(head, request)
    _refuse(head, request, route)
    row = _draft(head.agent, runtime, request, route, arguments)
    row.parent = _parent(request, head.agent, reach)
    stage = _stage(row)
    _check_people(row, stage, by_tap=bool(route.channels))
    return _Draft(row, stage, route)


def _governing(agent: Agent, found: RegistryHead | None) -> RegistryHead:
    """The agent's head, of an agent that no switch stops."""
    try:
        head = heads.governing(agent, found)
    except Problem:
        # That it is switched off is said before what else is wrong with it.
        _raise(switches.refusal(Agent.objects.select_related("organization").get(pk=agent.pk), writes=False))
        raise
    _raise(switches.refusal(head.agent, writes=False))
    return head


def _raise(refusal: Problem | None) -> None:
    if refusal is not None:
        raise refusal


def _make(
    request: NewRequest, arguments: Arguments, draft: _Draft, actor: Actor | None
) -> tuple[ConfirmationRequest, bool]:
    row = draft.row
    with transaction.atomic():
        # Held to the end: it makes the look-up, the count and the insert below one step per agent.
        held = _LOCKED.first(agent=row.agent_id)
        found = _attach(row.agent_id, request, arguments)
        if found is not None:
            confirmation_log.asked_again(found)
            return found, False
        if held is not None:
            held.organization = row.organization
            _raise(switches.refusal(held, writes=row.writes))  # somebody may have been faster
        _insert(draft, actor=actor)
    return row, True


_LOCKED = Composed(
    Agent.objects.select_for_update(no_key=True)
    .only("slug", "enabled", "halted", "halt_reason", "halt_until", "organization_id")
    .filter(pk=Parameter("agent"))
)
_ASKED = Composed(
    ConfirmationRequest.objects.select_related("agent", "organization", "initiator_user").filter(
        agent=Parameter("agent"),
        conversation_id=Parameter("conversation"),
        tool_call_id__in=(Parameter("call"), Parameter("older")),
    )
)


def _attach(agent_id: UUID, request: NewRequest, arguments: Arguments) -> ConfirmationRequest | None:
    """The request that was made for the same call, or by a delegate through a runtime of before paths, which sent the
    call's own id alone. Raises 409 ``tool_call_conflict``."""
    found = _ASKED.rows(
        agent=agent_id,
        conversation=request.conversation_id,
        call=request.tool_call_id,
        older=request.older_id or request.tool_call_id,
    )
    row = next((row for row in found if row.tool_call_id == request.tool_call_id), None)
    if row is None:
        return next((row for row in found if _is_older(row, request, arguments)), None)
    if not _is_same(row, request, arguments):
        raise Problem(
            409,
            "tool_call_conflict",
            "This tool_call_id was asked before in this conversation with another tool, other arguments or another"
            " initiator; use a new one.",
        )
    return row


def _is_older(row: ConfirmationRequest, request: NewRequest, arguments: Arguments) -> bool:
    is_before_paths = row.contract < contract.WITH_PATHS and row.tool_name == request.tool_name
    return is_before_paths and _is_same(row, request, arguments)


def _is_same(row: ConfirmationRequest, request: NewRequest, arguments: Arguments) -> bool:
    asked = (request.tool_name, arguments.digest, request.initiator_json())
    return asked == (row.tool_name, row.requested_digest, proposals.normal(row.initiator))


def _refuse(head: RegistryHead, request: NewRequest, route: Route) -> None:
    _raise(switches.refusal(head.agent, writes=route.writes))
    if not heads.was_served(head, request.registry_digest):
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


def _draft(
    agent: Agent, runtime: str, request: NewRequest, route: Route, arguments: Arguments
) -> ConfirmationRequest:
    """The row, not yet saved and without its times."""
    shown = arguments.redacted(route.redact)
    return ConfirmationRequest(
        organization=agent.organization,
        agent=agent,
        runtime=runtime[:100],
        conversation_id=request.conversation_id,
        tool_call_id=request.tool_call_id,
        contract=request.contract,
        tool_name=request.tool_name,
        args=request.tool_args,
        excerpt=excerpts.beginning(shown.canonical),
        redact=route.redact,
        is_redacted=shown is not arguments,
        writes=route.writes,
        requested_digest=arguments.digest,
        args_digest=arguments.digest,
        hook=request.hook,
        registry_digest=request.registry_digest,
        initiator=request.initiator_json(),
        initiator_user=_initiator_user(agent, request),
        summary=request.summary or None,
        mode=route.mode,
        policy=route.policy,
    )


_NAMED = Composed(
    User.objects.filter(is_active=True, memberships__organization_id=Parameter("organization"))
    .annotate(
        is_bound=Exists(
            Identity.objects.filter(
                user=OuterRef("pk"),
                organization_id=Parameter("organization"),
                app__isnull=True,
                external_id=Parameter("id"),
            )
        )
    )
    .filter(Q(email=Parameter("email")) | Q(is_bound=True))
)


def _initiator_user(agent: Agent, request: NewRequest) -> User | None:
    """The active member whom the initiator's e-mail names, else the one whom the runtime's own id is bound to.

    An e-mail that several members share names nobody.
    """
    told = request.initiator_json()
    if told is None:
        return None
    named = _NAMED.rows(organization=agent.organization_id, id=told["id"], email=told["email"] or "")
    by_email = [user for user in named if user.email and user.email == told["email"]]
    if len(by_email) == 1:
        return by_email[0]
    return next((user for user in named if vars(user)["is_bound"]), None)


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
    if not eligibility.suffice(row, stage):
        able = eligibility.count(row, stage)
        raise Problem(
            422,
            "no_eligible_approver",
            f"The policy {row.policy['slug']} needs {stage.quorum} to approve, and {able} may.",
        )


def _insert(draft: _Draft, *, actor: Actor | None) -> None:
    row, stage, route = draft.row, draft.stage, draft.route
    now = clock.now()
    _check_room(row, route, now)
    row.created_at = now
    row.expires_at = now + timedelta(seconds=route.timeout_seconds)
    row.save(force_insert=True)
    # Before the cards, so that the lines of the log come in this order.
    confirmation_log.asked(row)
    stage.opened_at = now
    stage.save(force_insert=True)
    remember(row, "stages", [stage])
    cards = [
        (channel, approval_cards.build(row, language=channel.language, votes=[]))
        for channel in route.channels
    ]
    topic = rows.topic(row.pk)
    sent = deliveries.open_topic(topic=topic, cards=cards, send_before=row.expires_at) if cards else []
    resources.keep_deliveries(row, sent)
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


_WAITING = ConfirmationRequest.objects.filter(
    agent=Parameter("agent"), status=ConfirmationRequest.Status.PENDING, expires_at__gt=Parameter("now")
).order_by("expires_at")


_SOONEST = Composed(_WAITING.only("expires_at")[:1])


@cache
def _last_place(allowed: int) -> Composed[ConfirmationRequest]:
    """The one that waits on the last of the ``allowed`` places."""
    return Composed(_WAITING.only("expires_at")[allowed - 1 : allowed])


def _check_room(row: ConfirmationRequest, route: Route, now: datetime) -> None:
    if not _last_place(route.max_pending).rows(agent=row.agent_id, now=now):
        return
    soonest = _SOONEST.rows(agent=row.agent_id, now=now)
    seconds = math.ceil((soonest[0].expires_at - now).total_seconds()) if soonest else 1
    raise TooManyPending(
        f"{route.max_pending} requests of this agent wait for people; its limit is {route.max_pending}.",
        max(1, min(seconds, MAX_RETRY_AFTER)),
    )
