"""Each member of an organization has an address of their own: initiators are matched by it.

Members alone count. An account elsewhere with the same address keeps nobody from it, and nobody is told of it. There is
no constraint in the database: it would be one across organizations. Two who get one address at the same instant are
both matched by nobody, and both barred from approving what is asked for it
(:func:`hooks_app.approvers.eligibility.initiators`).
"""

from collections.abc import Iterable
from uuid import UUID

from hookgate import addresses

from portal.models import Membership, User


def holder(address: str, organizations: Iterable[UUID], *, but: UUID | None = None) -> User | None:
    """The member of one of ``organizations``, other than the user ``but``, who has ``address``."""
    if not address:
        return None
    rows = Membership.objects.filter(organization__in=list(organizations), user__email=address)
    found = rows.exclude(user=but).select_related("user").order_by("user__username").first()
    return found.user if found else None


def same(one: str, other: str) -> bool:
    """Whether two texts are one address, however they are written; two that are none are compared as they stand."""
    return (addresses.find(one) or one) == (addresses.find(other) or other)
