"""Whether a policy can be fulfilled: as many people as it needs must be there, whoever asks.

Saving a policy that can't be, or taking people out of its group, is refused; where nobody can decide at all yet it is
said, because people may be added after policies. Switching somebody off, ending a membership or changing a role never
is: whoever does it is told which pending requests nobody can decide any more.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils.translation import gettext, ngettext

from hooks_app import confirmations
from hooks_app.approvers import eligibility, scopes
from hooks_app.approvers.scopes import Asked
from hooks_app.models import ApprovalPolicy, ConfirmationRequest
from hooks_app.models.policies import Scope
from portal.lib import clock
from portal.models import Group, Organization, User

CODE = "quorum_too_high"
# Pending requests that are judged and named at once; an agent may have 1,000.
_MOST_JUDGED = 200
_MOST_NAMED = 10


@dataclass(frozen=True)
class Shortfall:
    """A quorum, at ``path`` of its policy, that ``able`` people can't reach."""

    path: str
    needed: int
    able: int

    @property
    def message(self) -> str:
        """What is wrong, and the remedy."""
        text = ngettext(
            "%(needed)d must decide and %(able)d person can: lower it, or add people who may",
            "%(needed)d must decide and %(able)d people can: lower it, or add people who may",
            self.able,
        )
        return text % {"needed": self.needed, "able": self.able}


def shortfalls(policy: ApprovalPolicy, *, more: int = 0) -> list[Shortfall]:
    """What the policy needs more people for than there are, at its fields; ``more`` is how many will join."""
    found = []
    for path, scope, group, needed in _needs(policy):
        able = eligibility.seats(policy.organization_id, scope, group.pk if group else None)
        if able is not None and needed > able + more:
            found.append(Shortfall(path, needed, able))
    return found


def _needs(policy: ApprovalPolicy) -> Iterator[tuple[str, str, Group | None, int]]:
    """``(path, scope, group, quorum)`` of the policy and of each of its stages."""
    yield "quorum", policy.scope, policy.group, policy.quorum
    yield "reject_quorum", policy.scope, policy.group, policy.reject_quorum
    for index, stage in enumerate(policy.stages if isinstance(policy.stages, list) else []):
        if isinstance(stage, dict) and isinstance(stage.get("quorum", 1), int):
            yield (
                f"stages[{index}].quorum",
                stage.get("scope", Scope.APPROVERS),
                _group(policy, stage.get("group")),
                stage.get("quorum", 1),
            )


def _group(policy: ApprovalPolicy, slug: Any) -> Group | None:
    if not isinstance(slug, str):
        return None
    return Group.objects.filter(organization=policy.organization_id, slug=slug).first()


def groups(policy: ApprovalPolicy) -> set[Group]:
    """Those whose members decide, at any stage."""
    return {group for _path, scope, group, _needed in _needs(policy) if scope == Scope.GROUP and group}


def of_group(group: Group, able: int) -> list[tuple[ApprovalPolicy, Shortfall]]:
    """Which policies would lack people with only ``able`` in the group, and at which field."""
    policies = ApprovalPolicy.objects.filter(organization=group.organization_id).select_related("group")
    return [
        (policy, Shortfall(path, needed, able))
        for policy in policies
        for path, scope, named, needed in _needs(policy)
        if scope == Scope.GROUP and named == group and needed > able
    ]


def able_members(group: Group, chosen: Collection[UUID]) -> list[User]:
    """Those of ``chosen`` who have a seat in the group: active members of its organization."""
    return list(
        User.objects.filter(
            pk__in=chosen, is_active=True, memberships__organization_id=group.organization_id
        ).distinct()
    )


def stuck(organizations: Collection[Organization]) -> list[ConfirmationRequest]:
    """The pending requests that those who are left can't approve, of at most 200 that end first."""
    rows = ConfirmationRequest.objects.filter(
        organization__in=organizations,
        status=ConfirmationRequest.Status.PENDING,
        expires_at__gt=clock.now(),
    )
    pending = confirmations.listed(rows).prefetch_related("stages").order_by("expires_at")
    judged = list(pending[:_MOST_JUDGED])
    lacking = lack(judged)
    return [request for request in judged if lacking[request.pk]]


def lack(requests: Iterable[ConfirmationRequest]) -> dict[UUID, int]:
    """How many people the open stage of each request lacks, so that nobody can complete it, by its id; one statement.

    Where any member of a chat decides nobody knows how many there are: none.
    """
    asked = {row.pk: Asked.of(row, eligibility.current_stage(row)) for row in requests}
    lacking = scopes.lacking(asked.values())
    return {pk: lacking[one] for pk, one in asked.items()}


def tell(requests: Collection[ConfirmationRequest]) -> str:
    """A sentence about requests that are stuck; empty without any."""
    if not requests:
        return ""
    named = [f"{request.tool_name} ({str(request.pk)[:8]})" for request in list(requests)[:_MOST_NAMED]]
    rest = len(requests) - len(named)
    if rest:
        named.append(gettext("and %(count)d more") % {"count": rest})
    text = ngettext(
        "%(count)d pending request can’t be approved by those who are left: %(names)s.",
        "%(count)d pending requests can’t be approved by those who are left: %(names)s.",
        len(requests),
    )
    return text % {"count": len(requests), "names": ", ".join(named)}
