"""What an approval would come to now: the states that keep an approved call from running, in words."""

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from hooks_app import switches
from hooks_app.governance import quorums
from hooks_app.models import ConfirmationRequest, ConnectorCallLog
from portal.lib import visible

_OFF: Promise = gettext_lazy(
    "The agent is switched off: what you approve does not run, unless it is switched on again before the approval"
    " lapses."
)
_READ_ONLY: Promise = gettext_lazy(
    "The organization is read-only: what you approve does not run, unless that ends before the approval lapses."
)
_LEFT: Promise = gettext_lazy(
    "The process that asked has left the call. The request still waits: the next one that makes this call takes it up,"
    " and an approval that nobody takes up lapses."
)


def obstacle(request: ConfirmationRequest, lacking: int | None = None) -> str:
    """Why an approval would let nothing run at this moment, for who is about to give one; empty where nothing does.

    ``lacking`` is how many people its quorum lacks, if that is known.
    """
    if not request.agent.enabled:
        return str(_OFF)
    state = switches.state(request.agent, request.organization)
    if state["halted"]:
        told = visible.line(state["reason"] or "")
        return _(
            "The agent is halted%(reason)s: what you approve does not run, unless it is resumed before the approval"
            " lapses."
        ) % {"reason": f" ({told})" if told else ""}
    if state["read_only"] and request.writes:
        return str(_READ_ONLY)
    lacking = quorums.lack([request])[request.pk] if lacking is None else lacking
    if lacking:
        return ngettext(
            "One more person would have to be there who may approve: what you approve does not run before an admin adds"
            " one.",
            "%(count)d more people would have to be there who may approve: what you approve does not run before an"
            " admin adds them.",
            lacking,
        ) % {"count": lacking}
    return ""


def left(request: ConfirmationRequest) -> str:
    """What it means that the call log has this pending request's call as cancelled; empty where it doesn't."""
    ended = ConnectorCallLog.objects.filter(
        organization=request.organization_id, confirmation_id=request.pk, status="cancelled"
    )
    return str(_LEFT) if ended.exists() else ""
