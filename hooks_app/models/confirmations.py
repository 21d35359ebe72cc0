"""Confirmation requests, their stages and the decisions on them."""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from channels_app.models import Identity
from hooks_app.models.agents import Agent
from portal.lib import ids
from portal.lib.fields import EncryptedJSONField


class ConfirmationRequest(models.Model):
    """One suspended tool call that waits for people. Written by :mod:`hooks_app.confirmations` alone.

    ``policy`` is the frozen content of the policy (the keys of the config file), ``initiator_user`` the portal user
    that the initiator was matched to. Rows are never deleted with what they name: they are the record.
    """

    class Status(models.TextChoices):
        PENDING = "pending", _("pending")
        APPROVED = "approved", _("approved")
        REJECTED = "rejected", _("rejected")
        EXPIRED = "expired", _("expired")
        CANCELLED = "cancelled", _("cancelled")
        UNDELIVERABLE = "undeliverable", _("undeliverable")

    class Outcome(models.TextChoices):
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        UNKNOWN = "unknown", _("unknown")

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    organization = models.ForeignKey(
        "portal.Organization", on_delete=models.PROTECT, related_name="confirmations"
    )
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="confirmations")
    runtime = models.CharField(max_length=100, blank=True)
    # The version of the contract that the runtime spoke; 2 where it named none.
    contract = models.PositiveSmallIntegerField(default=2)
    conversation_id = models.CharField(max_length=200)
    tool_call_id = models.CharField(max_length=200)
    tool_name = models.CharField(max_length=200)
    args: Any = EncryptedJSONField()
    # The beginning of what people see of them (hooks_app.excerpts): lists read this and no arguments.
    excerpt: Any = EncryptedJSONField(null=True)
    # Paths that people see as redacted, frozen like the policy.
    redact: Any = models.JSONField(default=list)
    # Whether a part of the arguments is redacted: a digest of them would tell what it is.
    is_redacted = models.BooleanField(default=True)
    writes = models.BooleanField()
    requested_digest = models.CharField(max_length=80)
    args_digest = models.CharField(max_length=80)
    approved_args: Any = EncryptedJSONField(null=True)
    hook = models.CharField(max_length=100)
    registry_digest = models.CharField(max_length=80)
    initiator: Any = models.JSONField(null=True)
    initiator_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    summary = models.CharField(max_length=2000, null=True)  # noqa: DJ001  # null is the contract's word
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    mode = models.CharField(max_length=16, choices=Agent.Mode.choices)
    policy: Any = models.JSONField()
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.PENDING)
    # Counts votes; taking the row by this column is what serializes them (see confirmations.decide).
    votes = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    reason = models.TextField(null=True)  # noqa: DJ001
    refused_by = models.CharField(max_length=64, null=True)  # noqa: DJ001
    grant = models.UUIDField(null=True)
    start_by = models.DateTimeField(null=True)
    consumed_at = models.DateTimeField(null=True)
    attempt = models.UUIDField(null=True)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, null=True)  # noqa: DJ001
    outcome_detail = models.TextField(null=True)  # noqa: DJ001
    outcome_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [
            # Read by confirmations.sweep: what has run out of time.
            models.Index(fields=["expires_at"], condition=Q(status="pending"), name="pending_by_expiry"),
            models.Index(fields=["organization", "-created_at", "-id"], name="requests_by_organization"),
            models.Index(fields=["agent", "status"], name="requests_by_agent_status"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "conversation_id", "tool_call_id"], name="one_request_per_tool_call"
            ),
            models.CheckConstraint(
                condition=Q(
                    status__in=["pending", "approved", "rejected", "expired", "cancelled", "undeliverable"]
                ),
                name="request_status_known",
            ),
            models.CheckConstraint(
                condition=Q(status="pending", ended_at__isnull=True)
                | (~Q(status="pending") & Q(ended_at__isnull=False)),
                name="request_ended_unless_pending",
            ),
            models.CheckConstraint(
                condition=Q(status="approved", start_by__isnull=False)
                | (~Q(status="approved") & Q(start_by__isnull=True)),
                name="only_approved_has_start_by",
            ),
            models.CheckConstraint(
                condition=Q(consumed_at__isnull=True, attempt__isnull=True)
                | Q(consumed_at__isnull=False, attempt__isnull=False, status="approved"),
                name="only_approved_is_consumed",
            ),
            models.CheckConstraint(
                condition=Q(outcome__isnull=True, outcome_at__isnull=True)
                | Q(
                    outcome__in=["succeeded", "failed", "unknown"],
                    outcome_at__isnull=False,
                    consumed_at__isnull=False,
                ),
                name="only_consumed_has_outcome",
            ),
            models.CheckConstraint(condition=Q(expires_at__gt=F("created_at")), name="request_expires_later"),
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} · {self.status}"


class Stage(models.Model):
    """One step of a request's approval: who decides and how many must agree. A plain policy makes one stage."""

    request = models.ForeignKey(ConfirmationRequest, on_delete=models.CASCADE, related_name="stages")
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=64, blank=True)
    scope = models.CharField(max_length=16)
    group = models.UUIDField(null=True)
    quorum = models.PositiveIntegerField()
    reject_quorum = models.PositiveIntegerField()
    status = models.CharField(
        max_length=16,
        choices=[
            ("waiting", _("waiting")),
            ("open", _("open")),
            ("passed", _("passed")),
            ("closed", _("closed")),
        ],
        default="open",
    )
    opened_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["request", "number"], name="stage_number_once"),
            models.UniqueConstraint(
                fields=["request"], condition=Q(status="open"), name="one_open_stage_per_request"
            ),
            models.CheckConstraint(
                condition=Q(status__in=["waiting", "open", "passed", "closed"]), name="stage_status_known"
            ),
        ]


class Decision(models.Model):
    """One person's approve or reject. ``user`` is null only where a policy lets any member of the chat decide."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    request = models.ForeignKey(ConfirmationRequest, on_delete=models.PROTECT, related_name="decisions")
    stage = models.ForeignKey(Stage, on_delete=models.PROTECT, related_name="decisions")
    decision = models.CharField(max_length=8, choices=[("approve", _("approve")), ("reject", _("reject"))])
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    user_name = models.CharField(max_length=150, blank=True)
    identity = models.ForeignKey(Identity, null=True, on_delete=models.SET_NULL, related_name="+")
    # {"channel", "external_id", "name"} of the account that tapped, kept by value; null for inbox and API.
    identity_facts: Any = models.JSONField(null=True)
    # Who counts as one person for this request: "user:UUID", or "account:APP:EXTERNAL_ID" without a portal user.
    voter = models.CharField(max_length=300)
    # APP:EXTERNAL_ID of the account that tapped: it has voted, whoever it is bound to later.
    account = models.CharField(max_length=300, null=True)  # noqa: DJ001
    # False: at the last vote after it, whoever cast it might no longer decide, or had no seat.
    counts = models.BooleanField(default=True)
    reason = models.TextField(null=True)  # noqa: DJ001
    at = models.DateTimeField()

    class Meta:
        ordering = ["at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["stage", "voter"], name="one_decision_per_person_and_stage"),
            models.UniqueConstraint(
                fields=["stage", "account"],
                condition=Q(account__isnull=False),
                name="one_decision_per_account_and_stage",
            ),
            models.CheckConstraint(condition=Q(decision__in=["approve", "reject"]), name="decision_known"),
            models.CheckConstraint(
                condition=Q(user__isnull=False) | Q(identity_facts__isnull=False),
                name="decision_has_a_person",
            ),
        ]
