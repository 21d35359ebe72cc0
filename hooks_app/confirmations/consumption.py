"""Using an approval, once, and saying what came of it."""

from uuid import UUID

from django.db import transaction
from django.db.models import Q

from hooks_app import digests, switches
from hooks_app.confirmations import appearance, confirmation_log, rows, transitions
from hooks_app.confirmations.rows import Reach
from hooks_app.models import Agent, ConfirmationRequest
from hooks_app.registry import heads
from portal.audit import Actor
from portal.lib import clock, crypto
from portal.lib.problems import FieldError, Problem, invalid

MAX_DETAIL = 2000
Status = ConfirmationRequest.Status
Outcome = ConfirmationRequest.Outcome


def consume(
    *,
    request: ConfirmationRequest,
    args_digest: str,
    attempt: UUID,
    actor: Actor | None = None,
    reach: Reach | None = None,
) -> ConfirmationRequest:
    """Let ``attempt`` run what was approved. Everything is judged now: the answer holds for this moment only.

    Of ``request`` nothing but its id is believed; ``reach`` is what the caller may name.

    The same attempt again is answered alike until an outcome is reported (its first answer may have been lost), but
    never past a switch that stops the agent. Raises 409 ``not_approved``, ``already_consumed``, ``args_mismatch``,
    ``agent_disabled``, ``halted``, ``read_only``, ``approval_lapsed``.
    """
    with transaction.atomic():
        row = rows.load(request.pk, reach)
        _judge(row, args_digest, attempt)
        if row.consumed_at is not None:
            confirmation_log.consumed_again(row)
            return row
        now = clock.now()
        won = ConfirmationRequest.objects.filter(
            pk=row.pk,
            status=Status.APPROVED,
            consumed_at__isnull=True,
            start_by__gt=now,
            args_digest=row.args_digest,
        ).update(consumed_at=now, attempt=attempt)
        if won:
            row.consumed_at, row.attempt = now, attempt
            transitions.record(
                row,
                "confirmation.consumed",
                actor=actor or rows.runtime_actor(row),
                data={
                    "attempt": str(attempt),
                    **digests.recorded(row.organization_id, row.args_digest, is_redacted=row.is_redacted),
                },
            )
            confirmation_log.consumed(row)
        else:
            # Somebody was faster, or the time ran out in between: judged again, it says which.
            row = rows.load(row.pk)
            _judge(row, args_digest, attempt)
        return row


def report_outcome(
    *,
    request: ConfirmationRequest,
    status: str,
    detail: str | None = None,
    actor: Actor | None = None,
    reach: Reach | None = None,
) -> ConfirmationRequest:
    """Record how the consumed call ended. ``unknown`` may still become one of the others.

    Of ``request`` nothing but its id is believed; ``reach`` is what the caller may name.

    The same status again changes nothing. Raises 400 ``invalid``, 409 ``not_consumed``, ``outcome_conflict``.
    """
    _check_outcome(status, detail)
    replaceable = Q(outcome__isnull=True)
    if status != Outcome.UNKNOWN:
        replaceable |= Q(outcome=Outcome.UNKNOWN)
    with transaction.atomic():
        won = ConfirmationRequest.objects.filter(
            replaceable, pk=request.pk, consumed_at__isnull=False
        ).update(outcome=status, outcome_detail=detail or None, outcome_at=clock.now())
        row = rows.load(request.pk, reach)
        if won:
            transitions.record(
                row,
                "confirmation.outcome",
                actor=actor or rows.runtime_actor(row),
                data={"status": status},
            )
            confirmation_log.reported(row)
        elif row.consumed_at is None:
            raise Problem(409, "not_consumed", "The approval has not been consumed, so nothing can have run.")
        elif row.outcome != status:
            raise Problem(409, "outcome_conflict", f"The outcome has been reported as {row.outcome}.")
        return row


def _judge(row: ConfirmationRequest, args_digest: str, attempt: UUID) -> None:
    """Raise why ``attempt`` may not run the call now."""
    status = appearance.status_now(row)
    if status != Status.APPROVED:
        raise Problem(409, "not_approved", f"The request is {status}.")
    if row.consumed_at is not None and (row.attempt != attempt or row.outcome is not None):
        raise Problem(409, "already_consumed", "The approval has been used; ask again for another run.")
    if not crypto.same(args_digest, row.args_digest):
        raise Problem(409, "args_mismatch", "The arguments are not the ones that were approved.")
    refusal = switches.refusal(row.agent, writes=_writes(row, row.agent))
    if refusal:
        raise refusal
    if row.consumed_at is None and (row.start_by is None or row.start_by <= clock.now()):
        raise Problem(409, "approval_lapsed", "The approval was not used in time; ask again.")


def _writes(row: ConfirmationRequest, agent: Agent) -> bool:
    """Whether the tool writes, by what was known when it was asked about or is known now."""
    if row.writes or not agent.organization.read_only:
        return row.writes
    try:
        return heads.published(agent).manifest.tool_facts(row.tool_name).writes
    except Problem:
        return True


def _check_outcome(status: str, detail: str | None) -> None:
    errors = []
    if status not in Outcome.values:
        errors.append(FieldError("status", "invalid", "Send succeeded, failed or unknown."))
    if detail is not None and (not isinstance(detail, str) or len(detail) > MAX_DETAIL or "\x00" in detail):
        errors.append(
            FieldError("detail", "invalid", f"Send a text of at most {MAX_DETAIL} characters without NUL.")
        )
    if errors:
        raise invalid(*errors)
