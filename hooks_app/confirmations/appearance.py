"""What anybody may see of a request, whichever way it is shown."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from hookgate import redaction

from hooks_app.models import ConfirmationRequest, Decision
from portal.lib import clock
from portal.lib.composed import Composed, Parameter, remembers

# Where a row keeps its decisions while they are in hand.
_HELD = "_votes"
_VOTES = Composed(Decision.objects.select_related("user").filter(request=Parameter("request")))


def status_now(request: ConfirmationRequest) -> str:
    """The status that holds now: a pending row past its deadline reads as ``expired`` before anything has swept it."""
    status = ConfirmationRequest.Status
    if request.status == status.PENDING and request.expires_at <= clock.now():
        return str(status.EXPIRED)
    return str(request.status)


def redacted(request: ConfirmationRequest, args: Any) -> Any:
    """``args`` without the values at the paths that were frozen with the request."""
    return redaction.redact(args, request.redact)


def votes(request: ConfirmationRequest) -> list[Decision]:
    """The decisions in their order, each with who made it; read unless they are in hand."""
    if remembers(request, "decisions"):
        return list(request.decisions.all())
    held: Sequence[Decision] | None = vars(request).get(_HELD)
    return list(held) if held is not None else _VOTES.rows(request=request.pk)


def keep_votes(request: ConfirmationRequest, votes: Sequence[Decision]) -> None:
    """These are all decisions of a request, which the caller holds locked or has just made."""
    vars(request)[_HELD] = votes


def url(request: ConfirmationRequest) -> str:
    """The page where a signed-in person sees the whole request."""
    return f"{settings.BASE_URL}/inbox/{request.pk}/"
