"""Rows of the base app: organizations, people, their credentials, and the audit trail."""

from portal.models.audit import AuditEvent
from portal.models.links import AccountLink
from portal.models.organizations import (
    Absence,
    Group,
    GroupMember,
    Invitation,
    Membership,
    Organization,
    Role,
)
from portal.models.tokens import PersonalToken
from portal.models.users import User

__all__ = [
    "Absence",
    "AccountLink",
    "AuditEvent",
    "Group",
    "GroupMember",
    "Invitation",
    "Membership",
    "Organization",
    "PersonalToken",
    "Role",
    "User",
]
