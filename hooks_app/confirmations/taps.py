"""Taps on approval cards: from an authentic tap to a decision, and to what the person who tapped is told."""

from collections.abc import Callable
from uuid import UUID

from django.db.models import QuerySet
from django.utils import translation
from django.utils.translation import gettext as _

from channels_app.adapters.base import Reply, Tap
from channels_app.models import Delivery, Identity
from hooks_app import confirmations
from hooks_app.approvers import eligibility, seating
from hooks_app.confirmations import appearance, approval_cards, rows
from hooks_app.models import ConfirmationRequest
from portal.lib import ids, visible
from portal.lib.problems import Problem
from portal.observe import metrics


class ApprovalsTopic:
    """Owner of the deliveries whose topic is ``confirmation:UUID``."""

    def tap(self, *, delivery: Delivery, tap: Tap, identity: Identity | None) -> Reply:
        """Judge a tap on a card that we sent, and answer in the channel's language."""
        with translation.override(delivery.channel.language):
            request_id = _request_id(delivery.topic)
            if request_id is None or tap.action not in ("approve", "reject"):
                return _unusable()
            voter = eligibility.tapped(delivery.channel, tap.external_id, tap.name, identity)
            try:
                row = confirmations.decide(
                    request_id=request_id,
                    voter=voter,
                    decision=tap.action,
                    reason=tap.reason,
                    path="tap",
                    organization_id=delivery.organization_id,
                )
            except Problem as problem:
                if problem.status == 404:
                    return _unusable()
                metrics.count(metrics.REFUSALS, kind="tap", status=str(problem.status), code=problem.code)
                return _refuse(problem, rows.load(request_id), delivery, tap, identity)
            return _reply(_thank(row, tap.action), row, delivery, ok=True)

    def lock(self, topic: str) -> None:
        """Lock the request, before anybody locks one of its deliveries."""
        _requests(topic).select_for_update(no_key=True).only("pk").first()

    def undelivered(self, *, delivery: Delivery) -> None:
        """Give the request up when this was the last card that could have reached somebody."""
        row = _request_of(delivery)
        if row is not None:
            confirmations.mark_undeliverable(request_id=row.pk)


def _requests(topic: str) -> QuerySet[ConfirmationRequest]:
    """The request that a topic names, as a query; of none when it names none."""
    request_id = _request_id(topic)
    if request_id is None:
        return ConfirmationRequest.objects.none()
    return ConfirmationRequest.objects.filter(pk=request_id)


def _request_id(topic: str) -> UUID | None:
    return ids.parse(topic.removeprefix(f"{rows.TOPIC_PREFIX}:"))


def _unusable() -> Reply:
    return Reply(text=_("This card can't be used any more."), ok=False)


def _request_of(delivery: Delivery) -> ConfirmationRequest | None:
    return _requests(delivery.topic).filter(organization=delivery.organization_id).first()


def _reply(text: str, row: ConfirmationRequest, delivery: Delivery, *, ok: bool) -> Reply:
    """An answer that also brings the card up to date."""
    card = approval_cards.build(row, language=delivery.channel.language)
    return Reply(text=text, ok=ok, card=card, ref=delivery.ref)


def _thank(row: ConfirmationRequest, action: str) -> str:
    if row.status == ConfirmationRequest.Status.PENDING:
        stage = eligibility.current_stage(row)
        counts = {
            "done": stage.decisions.filter(decision=action, counts=True).count(),
            "needed": stage.quorum if action == "approve" else stage.reject_quorum,
        }
        if action == "approve":
            return _("Your approval counts: %(done)d of %(needed)d.") % counts
        return _("Your rejection counts: %(done)d of %(needed)d.") % counts
    return _("Approval recorded.") if action == "approve" else _("Rejection recorded.")


def _refuse(
    problem: Problem, row: ConfirmationRequest, delivery: Delivery, tap: Tap, identity: Identity | None
) -> Reply:
    if isinstance(problem, seating.SeatTaken):
        return _reply(_seat_taken(problem), row, delivery, ok=False)
    if problem.code in ("already_decided", "expired", "already_voted"):
        return _reply(_ENDS[problem.code](row), row, delivery, ok=False)
    if problem.code == "not_an_approver" and identity is None:
        text = _(
            "Your account is not linked to a portal user, so it can't decide. Ask an admin to link %(account)s on the"
            " channel %(channel)s to you."
        ) % {"account": visible.line(tap.external_id), "channel": delivery.channel.slug}
        return Reply(text=text, ok=False)
    words = {
        "not_an_approver": _("You are not among those who may decide this request."),
        "self_approval": _("You started this call, so you can't approve it."),
        "reason_required": _("A rejection needs a reason: write it on the card, or open the full request."),
    }
    return Reply(text=words.get(problem.code, _("This can't be done here. Open the full request.")), ok=False)


def _already(row: ConfirmationRequest) -> str:
    """Who was faster, or how it ended without anybody."""
    decisive = {"approved": "approve", "rejected": "reject"}.get(row.status)
    names = [
        approval_cards.name_of(vote)
        for vote in appearance.votes(row)
        if vote.decision == decisive and vote.counts
    ]
    values = {"who": ", ".join(names)}
    if row.status == ConfirmationRequest.Status.APPROVED:
        return _("Already approved by %(who)s.") % values
    if row.status == ConfirmationRequest.Status.REJECTED:
        return _("Already rejected by %(who)s.") % values
    return _("This request has ended; nothing runs.")


def _expired(row: ConfirmationRequest) -> str:
    return _("Too late: the deadline was %(when)s.") % {"when": approval_cards.at(row, row.expires_at)}


def _seat_taken(problem: seating.SeatTaken) -> str:
    return _("%(who)s has decided already on the same seat, which has one vote.") % {
        "who": approval_cards.name_of(problem.vote)
    }


def _voted(row: ConfirmationRequest) -> str:
    return _("You have decided already, and a decision stands.")


_ENDS: dict[str, Callable[[ConfirmationRequest], str]] = {
    "already_decided": _already,
    "expired": _expired,
    "already_voted": _voted,
}
