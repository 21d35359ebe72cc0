"""The call log."""

from typing import Any

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from hooks_app.models.agents import Agent
from portal.lib.fields import EncryptedJSONField


class ConnectorCallLog(models.Model):
    """One tool call, as its runtime reported it. Written by :mod:`hooks_app.calls` alone.

    The id is the runtime's, so that a resent entry is recognized. Agent and request are kept by value as well: the log
    outlives what it speaks of.
    """

    class Status(models.TextChoices):
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        BLOCKED = "blocked", _("blocked")
        TIMED_OUT = "timed_out", _("timed out")
        CANCELLED = "cancelled", _("cancelled")
        UNKNOWN = "unknown", _("unknown")

    id = models.UUIDField(primary_key=True)
    organization = models.ForeignKey("portal.Organization", on_delete=models.PROTECT, related_name="calls")
    agent = models.ForeignKey(Agent, null=True, on_delete=models.SET_NULL, related_name="calls")
    agent_slug = models.CharField(max_length=64)
    runtime = models.CharField(max_length=100, blank=True)
    session_id = models.CharField(max_length=200, blank=True)
    conversation_id = models.CharField(max_length=200, blank=True)
    tool_call_id = models.CharField(max_length=200, blank=True)
    tool_name = models.CharField(max_length=200)
    user: Any = models.JSONField(null=True)
    user_id_text = models.CharField(max_length=200, blank=True)
    surface = models.CharField(max_length=16, blank=True)
    status = models.CharField(max_length=12, choices=Status.choices)
    blocked_by = models.CharField(max_length=100, blank=True)
    reason = models.TextField(blank=True)
    error = models.TextField(blank=True)
    started_at = models.DateTimeField()
    duration_ms = models.FloatField(null=True)
    args: Any = models.JSONField(null=True)
    args_digest = models.CharField(max_length=80, blank=True)
    result_bytes = models.BigIntegerField(null=True)
    # Only where `audit_log` keeps results, which nobody has named the secrets of: encrypted, other than arguments.
    result: Any = EncryptedJSONField(null=True)
    confirmation_id = models.UUIDField(null=True)
    registry_digest = models.CharField(max_length=80, blank=True)
    trace: Any = models.JSONField(default=list)
    side_effects: Any = models.JSONField(default=list)
    received_at = models.DateTimeField()

    class Meta:
        verbose_name = _("call")
        ordering = ["-started_at", "-id"]
        indexes = [
            models.Index(fields=["organization", "-started_at", "-id"], name="calls_by_organization"),
            models.Index(fields=["agent", "-started_at"], name="calls_by_agent"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    status__in=["succeeded", "failed", "blocked", "timed_out", "cancelled", "unknown"]
                ),
                name="call_status_known",
            )
        ]
