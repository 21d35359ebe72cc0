"""Deciding: one person's vote, and what it makes of the request."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F
from hookgate import canonical

from hooks_app import appearance, eligibility, seating
from hooks_app.confirmations import rows, story, transitions
from hooks_app.eligibility import Voter
from hooks_app.models import ConfirmationRequest, Decision, Stage
from hooks_app.seating import Seating
from portal import audit
from portal.audit import Actor
from portal.lib import clock
from portal.lib.problems import FieldError, Problem, invalid

MAX_REASON = 2000
Status = ConfirmationRequest.Status


class _Unchanged(Exception):
    """The same person has decided the same before; undoes the taking of the row."""


def decide(
    *,
    request_id: UUID,
    voter: Voter,
    decision: str,
    reason: str | None = None,
    path: str = "api",
) -> ConfirmationRequest:
    """Count ``voter``'s ``approve`` or ``reject``, and end the request when the quorum is reached.

    The row is *taken* first (its ``votes`` column, only while it is pending and in time), and everything is judged
    behind that lock: two last votes at once would otherwise each count the other's as missing. A refusal undoes the
    taking. ``path`` (``tap``, ``inbox`` or ``api``) is only counted. Returns the request as it stands; the same
    decision of the same person again changes nothing.

    Raises :class:`Problem`: 400 ``invalid``, ``reason_required``; 403 ``not_an_approver``, ``self_approval``,
    ``channel_only``; 404; 409 ``already_voted``, ``already_decided``, ``expired``.
    """
    reason = _check(decision, reason)
    try:
        with transaction.atomic():
            return _vote(request_id, voter, decision, reason, path)
    except _Unchanged:
        return rows.load(request_id)


def _vote(
    request_id: UUID, voter: Voter, decision: str, reason: str | None, path: str
) -> ConfirmationRequest:
    now = clock.now()
    taken = ConfirmationRequest.objects.filter(
        pk=request_id, status=Status.PENDING, expires_at__gt=now
    ).update(votes=F("votes") + 1)
    row = rows.load(request_id)
    stage = eligibility.current_stage(row)
    votes = list(stage.decisions.select_related("user"))
    earlier = eligibility.earlier(row, votes, voter)
    if earlier is not None:
        return _repeat(row, stage, votes, earlier, decision, actor=_actor(voter), is_open=bool(taken))
    refusal = eligibility.judge(row, stage, voter, decision)
    if refusal:
        raise refusal
    if not taken:
        raise _closed(row)
    if decision == "reject" and not reason and row.policy["require_reject_reason"]:
        raise Problem(
            400,
            "reason_required",
            "The policy wants a reason for a rejection.",
            errors=[FieldError("reason", "reason_required", "Say why, in a few words.")],
        )
    seated = _take_seat(row, stage, votes, voter)
    _record(row, stage, voter, decision, reason, now)
    story.voted(row, decision, path)
    _conclude(row, stage, _actor(voter), decision, reason, counted=seated.count(decision) + 1)
    return row


def _take_seat(row: ConfirmationRequest, stage: Stage, votes: Sequence[Decision], voter: Voter) -> Seating:
    """See that a seat is left for ``voter``; returns who sits on the others."""
    seated = _judge_again(row, stage, votes)
    holder = seating.holder(row, stage, seated, voter) if votes else None
    if holder is not None:
        who = holder.user.display_name if holder.user else holder.user_name
        raise Problem(409, "already_voted", f"{who} has voted on this seat already: {holder.decision}.")
    return seated


def _repeat(
    row: ConfirmationRequest,
    stage: Stage,
    votes: Sequence[Decision],
    earlier: Decision,
    decision: str,
    *,
    actor: Actor,
    is_open: bool,
) -> ConfirmationRequest:
    """The same voter again. Another decision is refused; the same one changes nothing, unless votes that didn't count
    when the last one came do now, which nothing else would notice."""
    if earlier.decision != decision:
        raise Problem(
            409, "already_voted", f"You have decided already: {earlier.decision}. A decision stands."
        )
    if not is_open:
        raise _Unchanged
    seated = _judge_again(row, stage, votes)
    if not seated.counts(earlier) or seated.count(decision) < _needed(stage, decision):
        raise _Unchanged
    _conclude(row, stage, actor, decision, earlier.reason, counted=seated.count(decision))
    return row


def _judge_again(row: ConfirmationRequest, stage: Stage, votes: Sequence[Decision]) -> Seating:
    """Judge everybody who has voted as they are now, and note whose vote no longer counts, or does again."""
    seated = seating.seat(row, stage, votes)
    for vote in votes:
        if vote.counts != seated.counts(vote):
            vote.counts = seated.counts(vote)
            vote.save(update_fields=["counts"])
    return seated


def _needed(stage: Stage, decision: str) -> int:
    return stage.quorum if decision == "approve" else stage.reject_quorum


def _record(
    row: ConfirmationRequest, stage: Stage, voter: Voter, decision: str, reason: str | None, now: datetime
) -> None:
    account = voter.account
    Decision.objects.create(
        request=row,
        stage=stage,
        decision=decision,
        user=voter.user,
        user_name=voter.user.username if voter.user else "",
        identity=account.identity if account else None,
        identity_facts={
            "channel": account.channel.slug,
            "external_id": account.external_id,
            "name": _account_name(voter),
        }
        if account
        else None,
        voter=voter.key,
        account=voter.account_key,
        reason=reason,
        at=now,
    )
    transitions.record(
        row,
        "decision.recorded",
        actor=_actor(voter),
        data={
            "decision": decision,
            "stage": stage.number,
            "channel": account.channel.slug if account else None,
            "account": account.external_id if account else None,
            "reason": reason,
        },
    )


def _conclude(
    row: ConfirmationRequest, stage: Stage, actor: Actor, decision: str, reason: str | None, *, counted: int
) -> None:
    """End the request when its votes reach the quorum; else show the new count."""
    needed = _needed(stage, decision)
    if counted < needed:
        transitions.replace_cards(row)
        rows.wake(row)
        return
    approved = decision == "approve"
    ended = transitions.end(
        row,
        Status.APPROVED if approved else Status.REJECTED,
        now=clock.now(),
        actor=actor,
        reason=None if approved else reason,
        data={"votes": counted, "quorum": needed},
    )
    if not ended:
        # The deadline passed while the vote was being counted; nothing of it stays.
        raise _closed(row)


def _closed(row: ConfirmationRequest) -> Problem:
    status = appearance.status_now(row)
    if status in (Status.EXPIRED, Status.PENDING):
        return Problem(409, "expired", "The deadline has passed; nobody's decision counts any more.")
    return Problem(409, "already_decided", f"The request has ended: {status}.")


def _check(decision: str, reason: str | None) -> str | None:
    if decision not in ("approve", "reject"):
        raise invalid(FieldError("decision", "invalid", "Send approve or reject."))
    if reason is None:
        return None
    if not isinstance(reason, str) or len(reason) > MAX_REASON:
        raise invalid(FieldError("reason", "invalid", f"Send a text of at most {MAX_REASON} characters."))
    try:
        canonical.check(reason)
    except canonical.NotCanonical as error:
        raise invalid(FieldError("reason", "invalid", f"The text {error.message}.")) from error
    return reason.strip() or None


def _account_name(voter: Voter) -> str:
    """What the platform calls the account, else what the binding says, else the person it is bound to."""
    account = voter.account
    if account is None:
        return ""
    bound = account.identity.name if account.identity else ""
    person = voter.user.display_name if voter.user else ""
    return (account.name or bound or person)[:200]


def _actor(voter: Voter) -> Actor:
    if voter.user is not None:
        return audit.person(voter.user)
    assert voter.account is not None
    return Actor("identity", voter.account.external_id, _account_name(voter))
