"""The doors to rows. A row reaches a person or a key only through here, and the default is nothing."""

from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

from portal.lib.composed import Parameter
from portal.models import Membership, Organization, Role, User

M = TypeVar("M", bound=Model)

# Who may look at an organization's records, and who may change what governs it.
READERS = (Role.ADMIN, Role.AUDITOR)
WRITERS = (Role.ADMIN,)
EVERYBODY = (Role.ADMIN, Role.APPROVER, Role.AUDITOR, Role.MEMBER)


def organizations(user: User, *roles: str) -> QuerySet[Organization]:
    """The organizations in which ``user`` has one of ``roles``; all of them for an active superuser."""
    if not user.is_active or not roles:
        return Organization.objects.none()
    if user.is_superuser:
        return Organization.objects.all()
    return Organization.objects.filter(memberships__user=user, memberships__role__in=roles)


def role(user: User, organization_id: UUID) -> str | None:
    """The role of an active ``user`` in the organization, or ``None``; a superuser who is no member is an admin."""
    if not user.is_active:
        return None
    found = (
        Membership.objects.filter(user=user, organization_id=organization_id)
        .values_list("role", flat=True)
        .first()
    )
    return found or (Role.ADMIN if user.is_superuser else None)


def rows(queryset: QuerySet[M], user: User, *roles: str, path: str = "organization") -> QuerySet[M]:
    """Those rows of ``queryset`` whose organization (at ``path``) is one in which ``user`` has one of ``roles``."""
    return queryset.filter(**{f"{path}__in": organizations(user, *roles).values("pk")})


def rows_of_key(
    queryset: QuerySet[M],
    *,
    organization_id: UUID | Parameter,
    agent_id: UUID | Parameter | None,
    path: str = "organization",
    agent_path: str = "agent",
) -> QuerySet[M]:
    """Those rows that a runtime key reaches: its organization's, and of its own agent alone if it names one."""
    wanted: dict[str, Any] = {f"{path}_id": organization_id}
    if agent_id is not None:
        wanted[f"{agent_path}_id" if agent_path != "pk" else "pk"] = agent_id
    return queryset.filter(**wanted)
