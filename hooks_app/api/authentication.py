"""Who is calling: a runtime with its key, or a person with a session or a token.

:func:`authenticate` is a plain synchronous function, so that the endpoints outside Django's own handler use it too.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from hooks_app import keys
from hooks_app.models import RuntimeKey
from hooks_app.models.keys import KEY_PREFIX
from portal import audit
from portal.api import csrf, problems
from portal.models import User
from portal.models.tokens import TOKEN_PREFIX, TOKEN_SCOPES
from portal.people import tokens


@dataclass(frozen=True)
class RuntimeCaller:
    """A runtime. It reaches the rows of its organization, and of its agent alone if the key names one."""

    key: RuntimeKey

    @property
    def organization_id(self) -> UUID:
        """The organization of the key."""
        return self.key.organization_id

    @property
    def agent_id(self) -> UUID | None:
        """The one agent of the key, or ``None`` for all of the organization."""
        return self.key.agent_id

    @property
    def scopes(self) -> frozenset[str]:
        """What the key may do."""
        return frozenset(self.key.scopes)

    @property
    def actor(self) -> audit.Actor:
        """The key, for the audit trail."""
        return audit.Actor("runtime", str(self.key.pk), self.key.label)


@dataclass(frozen=True)
class PersonCaller:
    """A person. A portal session may do everything that its user may; a token only what its scopes say."""

    user: User
    scopes: frozenset[str]

    @property
    def actor(self) -> audit.Actor:
        """The person, for the audit trail."""
        return audit.person(self.user)


Caller = RuntimeCaller | PersonCaller


def authenticate(header: str | None) -> Caller | None:
    """The caller that an ``Authorization`` header proves; ``None`` for no, a malformed or a worthless one."""
    scheme, _, plain = (header or "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    if plain.startswith(TOKEN_PREFIX):
        token = tokens.authenticate(plain)
        return PersonCaller(token.user, frozenset(token.scopes)) if token else None
    if plain.startswith(KEY_PREFIX):
        key = keys.authenticate(plain)
        return RuntimeCaller(key) if key else None
    return None


def session_caller(request: HttpRequest) -> PersonCaller | None:
    """The signed-in person behind a portal session, if there is one."""
    user: Any = request.user
    if isinstance(user, User) and user.is_active:
        return PersonCaller(user, frozenset(TOKEN_SCOPES))
    return None


class BearerOrSession(BaseAuthentication):
    """``request.auth`` becomes the :data:`Caller`; ``request.user`` the person, or ``None`` for a runtime.

    A header that proves nothing is refused even beside a valid session. Sessions need the CSRF token to write.
    """

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Raises 401 ``unauthenticated``, 403 ``csrf_failed``."""
        header = request.META.get("HTTP_AUTHORIZATION")
        if header is None:
            person = session_caller(request._request)
            if person is None:
                return None
            csrf.enforce(request._request)
            return person.user, person
        caller = authenticate(header)
        if caller is None:
            raise problems.unauthenticated()
        return (caller.user if isinstance(caller, PersonCaller) else None), caller

    def authenticate_header(self, request: Request) -> str:
        """The challenge of a 401."""
        return "Bearer"


class IsKnown(BasePermission):
    """Somebody has to be calling; what they may do is each endpoint's :class:`hooks_app.api.permits.Permit`."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether a caller was found."""
        return request.auth is not None
