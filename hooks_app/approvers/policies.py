"""Which approval policy holds for a call, and its content frozen for one request."""

from functools import lru_cache
from typing import Any
from uuid import UUID

from hooks_app.models import ApprovalPolicy
from hooks_app.models.policies import BUILT_IN
from portal.lib.problems import FieldError, Problem
from portal.models import Organization

# The keys of the configuration file that are frozen as they stand.
_PLAIN_KEYS = (
    "slug",
    "scope",
    "quorum",
    "reject_quorum",
    "timeout_seconds",
    "start_by_seconds",
    "forbid_self_approval",
    "require_known_initiator",
    "allow_edit_args",
    "require_reject_reason",
    "remind_after_seconds",
    "escalate_after_seconds",
    "escalate_to",
    "stages",
    "grants",
    "sticky_denial_seconds",
)


def choose(*levels: str | None) -> str:
    """The first slug that a level names, in the order action, trigger, agent, organization; else the built-in one."""
    return next((slug for slug in levels if slug), BUILT_IN)


def freeze(organization: Organization, slug: str) -> dict[str, Any]:
    """The content of the policy ``slug`` as plain JSON, for ``ConfirmationRequest.policy``.

    The keys are the configuration file's, with ``group`` the group's slug and ``group_id`` its id. A policy of the
    organization named ``default`` stands in front of the built-in one. Raises 422 ``registry_unbuildable`` for a policy
    that doesn't exist: it was deleted a moment ago, or the next build of the registry would have said so.
    """
    row = ApprovalPolicy.objects.filter(organization=organization, slug=slug).select_related("group").first()
    if row is None and slug != BUILT_IN:
        message = f"There is no approval policy {slug}."
        raise Problem(
            422,
            "registry_unbuildable",
            message,
            errors=[FieldError("approval_policy", "unknown_policy", message)],
        )
    if row is None:
        row = ApprovalPolicy(organization=organization, slug=BUILT_IN)
    frozen = {key: getattr(row, key) for key in _PLAIN_KEYS}
    return {
        **frozen,
        "group": row.group.slug if row.group else None,
        "group_id": str(row.group_id) if row.group_id else None,
    }


def frozen(organization: Organization, slug: str) -> dict[str, Any]:
    """As :func:`freeze`, for an ``organization`` that was read in this request: a policy can't change while its
    ``inputs_version`` stays, so it is read once for each. Nobody may change what this returns."""
    return _frozen(organization.pk, organization.inputs_version, slug)


@lru_cache(maxsize=1024)
def _frozen(organization_id: UUID, _inputs_version: int, slug: str) -> dict[str, Any]:
    return freeze(Organization(pk=organization_id), slug)


def group_id(policy: dict[str, Any]) -> UUID | None:
    """The id of the group that a frozen policy names."""
    return UUID(policy["group_id"]) if policy["group_id"] else None
