"""What every page's frame needs to know."""

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from portal import access
from portal.models import User


def frame(request: HttpRequest) -> dict[str, Any]:
    """``may_enter_admin``: whether the frame links to the portal. Asked only by templates that use it."""
    return {"may_enter_admin": SimpleLazyObject(lambda: _may_enter_admin(request))}


def _may_enter_admin(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)
    return isinstance(user, User) and access.organizations(user, *access.READERS).exists()
