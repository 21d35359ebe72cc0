"""Approval policies: who may decide, how many must, and how long they have."""

from typing import Any, Final

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from portal.lib import ids
from portal.models import Group
from portal.models.organizations import validate_slug

# The policy that holds where nobody names another (contract, section 3).
BUILT_IN: Final = "default"


class Scope(models.TextChoices):
    """Whom a policy lets decide."""

    INITIATOR = "initiator", _("the initiator")
    AGENT_OWNER = "agent_owner", _("the agent's owner")
    ORG_MEMBERS = "org_members", _("any member of the organization")
    APPROVERS = "approvers", _("approvers and admins")
    GROUP = "group", _("a group")
    CHANNEL_MEMBERS = "channel_members", _("anybody in the chat")


def default_grants() -> dict[str, Any]:
    """Standing approvals are off."""
    return {"allowed": False, "max_uses": 10, "max_seconds": 3600}


class ApprovalPolicy(models.Model):
    """A named policy of one organization. A request freezes its content when it is made."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    organization = models.ForeignKey(
        "portal.Organization", on_delete=models.CASCADE, related_name="approval_policies"
    )
    slug = models.CharField(max_length=64, validators=[validate_slug])
    position = models.PositiveIntegerField(default=0)
    when = models.TextField(null=True, blank=True)  # noqa: DJ001  # null: no condition
    scope = models.CharField(max_length=16, choices=Scope.choices, default=Scope.APPROVERS)
    group = models.ForeignKey(Group, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    quorum = models.PositiveIntegerField(default=1, validators=[MinValueValidator(1), MaxValueValidator(100)])
    reject_quorum = models.PositiveIntegerField(
        default=1, validators=[MinValueValidator(1), MaxValueValidator(100)]
    )
    timeout_seconds = models.PositiveIntegerField(
        default=120, validators=[MinValueValidator(1), MaxValueValidator(259200)]
    )
    start_by_seconds = models.PositiveIntegerField(
        default=300, validators=[MinValueValidator(1), MaxValueValidator(259200)]
    )
    forbid_self_approval = models.BooleanField(default=True)
    require_known_initiator = models.BooleanField(default=False)
    allow_edit_args = models.BooleanField(default=False)
    require_reject_reason = models.BooleanField(default=False)
    remind_after_seconds = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)]
    )
    escalate_after_seconds = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)]
    )
    escalate_to: Any = models.JSONField(null=True, blank=True)
    stages: Any = models.JSONField(default=list, blank=True)
    grants: Any = models.JSONField(default=default_grants, blank=True)
    sticky_denial_seconds = models.PositiveIntegerField(default=600)

    class Meta:
        verbose_name_plural = _("approval policies")
        ordering = ["position", "slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "slug"], name="policy_slug_unique_in_organization"
            ),
            models.CheckConstraint(condition=Q(scope__in=Scope.values), name="policy_scope_known"),
            models.CheckConstraint(
                condition=Q(scope="group", group__isnull=False) | (~Q(scope="group") & Q(group__isnull=True)),
                name="policy_group_with_group_scope",
            ),
            models.CheckConstraint(
                condition=Q(quorum__gte=1, reject_quorum__gte=1), name="policy_quorum_positive"
            ),
            models.CheckConstraint(
                condition=Q(timeout_seconds__gte=1, timeout_seconds__lte=259200),
                name="policy_timeout_in_range",
            ),
        ]

    def __str__(self) -> str:
        return self.slug
