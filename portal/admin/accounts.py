"""Whose account an admin may change."""

from django.http import HttpRequest

from portal.admin import reach
from portal.models import Membership, User


def may_manage(request: HttpRequest, user: User) -> bool:
    """Whether the person may change an account: superusers any; admins those that are members of theirs alone."""
    found = reach.of(request)
    if found.everything:
        return True
    # Not by way of the user: a page's user has only those memberships that may be looked at.
    homes = set(Membership.objects.filter(user=user).values_list("organization_id", flat=True))
    return not user.is_superuser and bool(homes) and homes <= found.writable
