"""Deciding: one person's vote, and what it makes of the request."""

from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F
from hookgate import canonical

from hooks_app.approvers import eligibility, seating
from hooks_app.approvers.eligibility import Voter
from hooks_app.approvers.seating import Seating, SeatTaken
from hooks_app.confirmations import appearance, confirmation_log, rows, transitions
from hooks_app.models import ConfirmationRequest, Decision, Stage
from portal import audit
from portal.audit import SYSTEM, Actor
from portal.lib import clock
from portal.lib.problems import FieldError, Problem, invalid, not_found
from portal.models import AuditEvent

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
    may_know: Callable[[UUID], None] | None = None,
    organization_id: UUID | None = None,
) -> ConfirmationRequest:
    """Count ``voter``'s ``approve`` or ``reject``, and end the request when the quorum is reached.

    The row is *taken* first (its ``votes`` column, only while it is pending and in time), and everything is judged
    behind that lock: two last votes at once would otherwise each count the other's as missing. A refusal undoes the
    taking. ``path`` (``tap``, ``inbox`` or ``api``) is only counted. ``may_know`` raises 404 ``not_found`` for who may
    not hear of the request; it is asked where no vote is recorded, as who may vote may know. A request of another
    organization than ``organization_id`` is 404 as well. Returns the request as it stands; the same decision of the
    same person again changes nothing.

    Raises :class:`Problem`: 400 ``invalid``, ``reason_required``; 403 ``not_an_approver``, ``self_approval``,
    ``channel_only``; 404; 409 ``already_voted``, ``already_decided``, ``expired``.
    """
    reason = _check(decision, reason)
    try:
        with transaction.atomic():
            return _vote(request_id, voter, decision, reason, path, organization_id)
    except (_Unchanged, Problem) as outcome:
        if may_know is not None:
            may_know(request_id)
        if isinstance(outcome, Problem):
            raise
        return rows.load(request_id)


def _vote(
    request_id: UUID,
    voter: Voter,
    decision: str,
    reason: str | None,
    path: str,
    organization_id: UUID | None,
) -> ConfirmationRequest:
    now = clock.now()
    taken = ConfirmationRequest.objects.filter(
        pk=request_id, status=Status.PENDING, expires_at__gt=now
    ).update(votes=F("votes") + 1)
    row = rows.load_with_stages(request_id)
    if organization_id not in {None, row.organization_id}:
        raise not_found()
    stage = eligibility.current_stage(row)
    # Each vote that stays has taken the row: the first to do so finds none.
    votes = list(stage.decisions.select_related("user")) if row.votes > taken else []
    earlier = eligibility.earlier(row, votes, voter)
    if earlier is not None:
        return _repeat(row, stage, votes, earlier, voter, decision, is_open=bool(taken))
    refusal = eligibility.judge(row, stage, voter, decision)
    if refusal:
        raise refusal
    if not taken:
        raise _closed(row)
    _require_reason(row, decision, reason)
    seated = _take_seat(row, stage, votes, voter)
    cast = _record(row, stage, voter, decision, reason, now)
    event = _event(row, stage, voter, "decision.recorded", decision, reason)
    if stage.number == 1:
        appearance.keep_votes(row, [*votes, cast])
    confirmation_log.voted(row, decision, path)
    counted = seated.count(decision) + 1
    _conclude(row, stage, _actor(voter), decision, reason, counted=counted, before=[event])
    return row


def _require_reason(row: ConfirmationRequest, decision: str, reason: str | None) -> None:
    if decision == "reject" and not reason and row.policy["require_reject_reason"]:
        raise Problem(
            400,
            "reason_required",
            "The policy wants a reason for a rejection.",
            errors=[FieldError("reason", "reason_required", "Say why, in a few words.")],
        )


def _take_seat(row: ConfirmationRequest, stage: Stage, votes: Sequence[Decision], voter: Voter) -> Seating:
    """See that a seat is left for ``voter``; returns who sits on the others."""
    seated = _judge_again(row, stage, votes)
    holder = seating.holder(row, stage, seated, voter) if votes else None
    if holder is not None:
        raise SeatTaken(holder)
    return seated


def _repeat(
    row: ConfirmationRequest,
    stage: Stage,
    votes: Sequence[Decision],
    earlier: Decision,
    voter: Voter,
    decision: str,
    *,
    is_open: bool,
) -> ConfirmationRequest:
    """The same voter again. Another decision is refused; the same one changes nothing, unless votes that didn't count
    when the last one came do now, which nothing else would notice; or the person stands by a vote of an account that is
    no longer theirs."""
    if earlier.decision != decision:
        # By account alone it may have been somebody else, to whom the account belonged then.
        same = earlier.user_id is None or (voter.user is not None and earlier.user_id == voter.user.pk)
        who = "You have" if same else f"This account has, as {earlier.user_name},"
        raise Problem(409, "already_voted", f"{who} decided already: {earlier.decision}. A decision stands.")
    if not is_open:
        raise _Unchanged
    before = [vote.counts for vote in votes]
    seated = _judge_again(row, stage, votes)
    if not seated.counts(earlier) and _stands_by(row, stage, earlier, voter):
        seated = _judge_again(row, stage, votes)
    is_news = before != [vote.counts for vote in votes] or seated.count(decision) >= _needed(stage, decision)
    if not seated.counts(earlier) or not is_news:
        raise _Unchanged
    _conclude(row, stage, _actor(voter), decision, earlier.reason, counted=seated.count(decision))
    return row


def _stands_by(row: ConfirmationRequest, stage: Stage, vote: Decision, voter: Voter) -> bool:
    """Let a vote rest on the way that its own person has chosen now. ``account`` stays: that one has voted."""
    if voter.user is None or vote.user_id != voter.user.pk:
        return False
    facts = _account_facts(voter)
    if facts == vote.identity_facts or eligibility.judge(row, stage, voter, vote.decision):
        return False
    vote.identity = voter.account.identity if voter.account else None
    vote.identity_facts = facts
    vote.save(update_fields=["identity", "identity_facts"])
    audit.append_all([_event(row, stage, voter, "decision.confirmed", vote.decision, vote.reason)])
    return True


def _judge_again(row: ConfirmationRequest, stage: Stage, votes: Sequence[Decision]) -> Seating:
    """Judge everybody who has voted as they are now, and note whose vote no longer counts, or does again."""
    seated = seating.seat(row, stage, votes)
    for vote in votes:
        if vote.counts != seated.counts(vote):
            vote.counts = seated.counts(vote)
            vote.save(update_fields=["counts"])
            transitions.record(
                row,
                "decision.counted" if vote.counts else "decision.discounted",
                actor=SYSTEM,
                data={
                    "decision": vote.decision,
                    "voter": vote.user_name or vote.voter,
                    "stage": stage.number,
                },
            )
    return seated


def _needed(stage: Stage, decision: str) -> int:
    return stage.quorum if decision == "approve" else stage.reject_quorum


def _record(
    row: ConfirmationRequest, stage: Stage, voter: Voter, decision: str, reason: str | None, now: datetime
) -> Decision:
    account = voter.account
    return Decision.objects.create(
        request=row,
        stage=stage,
        decision=decision,
        user=voter.user,
        user_name=voter.user.username if voter.user else "",
        identity=account.identity if account else None,
        identity_facts=_account_facts(voter),
        voter=voter.key,
        account=voter.account_key,
        reason=reason,
        at=now,
    )


def _account_facts(voter: Voter) -> dict[str, str] | None:
    """What a decision keeps of the account that tapped, by value."""
    if voter.account is None:
        return None
    slug, external_id = voter.account.channel.slug, voter.account.external_id
    return {"channel": slug, "external_id": external_id, "name": _account_name(voter)}


def _event(
    row: ConfirmationRequest, stage: Stage, voter: Voter, action: str, decision: str, reason: str | None
) -> AuditEvent:
    account = voter.account
    return transitions.event(
        row,
        action,
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
    row: ConfirmationRequest,
    stage: Stage,
    actor: Actor,
    decision: str,
    reason: str | None,
    *,
    counted: int,
    before: Sequence[AuditEvent] = (),
) -> None:
    """End the request when its votes reach the quorum; else show the new count. ``before`` are events that led here."""
    needed = _needed(stage, decision)
    if counted < needed:
        audit.append_all(before)
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
        before=before,
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
