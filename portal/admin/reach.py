"""Which organizations a person may look at, and which they may change, in the admin pages."""

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest

from portal import access
from portal.models import User


@dataclass(frozen=True)
class Reach:
    """Ids of organizations: ``readable`` for admins and auditors, ``writable`` for admins."""

    readable: frozenset[UUID]
    writable: frozenset[UUID]
    everything: bool = False


NOWHERE = Reach(frozenset(), frozenset())


def of(request: HttpRequest) -> Reach:
    """The reach of whoever asks, read once per request."""
    found: Reach | None = getattr(request, "_portal_reach", None)
    if found is None:
        found = _read(request.user) if isinstance(request.user, User) else NOWHERE
        request._portal_reach = found  # type: ignore[attr-defined]
    return found


def _read(user: User) -> Reach:
    return Reach(
        readable=frozenset(access.organizations(user, *access.READERS).values_list("pk", flat=True)),
        writable=frozenset(access.organizations(user, *access.WRITERS).values_list("pk", flat=True)),
        everything=user.is_active and user.is_superuser,
    )
