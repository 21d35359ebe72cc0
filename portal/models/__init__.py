"""Rows of the base app: organizations, people, their credentials, and the audit trail."""

from portal.models.audit import AuditEvent
from portal.models.organizations import Absence, Group, GroupMember, Membership, Organization, Role
from portal.models.tokens import PersonalToken
from portal.models.users import User

__all__ = [
    "Absence",
    "AuditEvent",
    "Group",
    "GroupMember",
    "Membership",
    "Organization",
    "PersonalToken",
    "Role",
    "User",
]
