"""What the inbox tells a person: why a decision was refused, and what became of one that counted."""

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from hooks_app import confirmations
from hooks_app.approvers import eligibility, words
from hooks_app.approvers.seating import SeatTaken
from hooks_app.confirmations import appearance
from hooks_app.confirmations.approval_cards import at, name_of
from hooks_app.inbox.effects import obstacle
from hooks_app.models import ConfirmationRequest
from portal.lib.problems import Problem

_PLAIN: dict[str, Promise] = {
    "self_approval": gettext_lazy(
        "The agent acts for you here, and this policy lets nobody approve their own request."
    ),
    "already_voted": gettext_lazy("You have decided differently before; a decision can't be taken back."),
    "reason_required": gettext_lazy("This policy wants a reason for a rejection. Say why, in a few words."),
    "expired": gettext_lazy("The deadline has passed; nobody's decision counts any more."),
}
_ENDED: dict[str, Promise] = {
    "approved": gettext_lazy("Approved"),
    "rejected": gettext_lazy("Rejected"),
    "expired": gettext_lazy("Expired: nobody decided in time"),
    "cancelled": gettext_lazy("Cancelled by the agent"),
    "undeliverable": gettext_lazy("Not delivered"),
}


def refusal(request: ConfirmationRequest, problem: Problem) -> str:
    """Why the decision was refused, and what the person can do instead."""
    if problem.code == "channel_only":
        return _channel_only(request)
    if problem.code == "not_an_approver":
        return str(words.ONLY[eligibility.current_stage(request).scope])
    if problem.code == "already_decided":
        return _already_decided(request)
    if isinstance(problem, SeatTaken):
        return seat_taken(problem)
    return str(_PLAIN.get(problem.code, problem.detail))


def seat_taken(problem: SeatTaken) -> str:
    """That somebody else has cast the vote that this person could have cast."""
    values = {"who": name_of(problem.vote)}
    if problem.vote.decision == "approve":
        return _("%(who)s has approved already on the same seat, which has one vote.") % values
    return _("%(who)s has rejected already on the same seat, which has one vote.") % values


def _channel_only(request: ConfirmationRequest) -> str:
    sent = confirmations.represent_deliveries(request)
    named = ", ".join(sorted({delivery["channel"] for delivery in sent}))
    if not named:
        return _("This request is decided only in the chat, by a tap on its card.")
    return _("This request is decided only in the chat: tap its card in %(channels)s.") % {"channels": named}


def _already_decided(request: ConfirmationRequest) -> str:
    status = str(_ENDED.get(appearance.status_now(request), request.status))
    names = ", ".join(name_of(vote) for vote in request.decisions.all() if vote.counts)
    ended = at(request, request.ended_at or request.expires_at)
    if not names:
        return _("The request has ended already: %(status)s, %(when)s.") % {"status": status, "when": ended}
    values = {"status": status, "who": names, "when": ended}
    return _("Others were faster. %(status)s by %(who)s, %(when)s.") % values


def counted(request: ConfirmationRequest, decision: str) -> str:
    """What the decision that was just made means."""
    status = appearance.status_now(request)
    if status == "approved":
        # What was said before the buttons holds afterwards: nobody is thanked for what changes nothing.
        return obstacle(request) or _("Approved. The agent may now run this call once.")
    if status == "rejected":
        return _("Rejected. The call does not run.")
    stage = eligibility.current_stage(request)
    votes = stage.decisions.filter(decision=decision, counts=True).count()
    needed = (stage.quorum if decision == "approve" else stage.reject_quorum) - votes
    return ngettext(
        "Your decision counts; %(needed)d more like it is needed.",
        "Your decision counts; %(needed)d more like it are needed.",
        needed,
    ) % {"needed": needed}
