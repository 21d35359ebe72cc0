"""What every page's frame needs to know."""

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from portal import access
from portal.models import Invitation, User


def frame(request: HttpRequest) -> dict[str, Any]:
    """``may_enter_admin``: whether the frame links to the portal; ``invitations_count``: how many wait for an answer.

    Asked only by templates that use them.
    """
    return {
        "may_enter_admin": SimpleLazyObject(lambda: _may_enter_admin(request)),
        "invitations_count": SimpleLazyObject(lambda: _invitations_count(request)),
    }


def _may_enter_admin(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)
    return isinstance(user, User) and access.organizations(user, *access.READERS).exists()


def _invitations_count(request: HttpRequest) -> int:
    user = getattr(request, "user", None)
    return (
        Invitation.objects.filter(user=user, declined_at__isnull=True).count()
        if isinstance(user, User)
        else 0
    )
