"""The audit trail of decisions and configuration."""

from typing import Any

from django.db import models


class AuditEvent(models.Model):
    """One thing that somebody did. Appended by :mod:`portal.audit` alone; never changed.

    ``sequence`` grows with every row of the installation; an organization's own events are in its order, with gaps.
    Rows outlive what they speak of: actor and object are copied, not referenced.
    """

    sequence = models.BigAutoField(primary_key=True)
    organization = models.ForeignKey(
        "portal.Organization", null=True, on_delete=models.PROTECT, related_name="audit_events"
    )
    at = models.DateTimeField(db_index=True)
    actor_kind = models.CharField(max_length=16)
    actor_id = models.CharField(max_length=200, blank=True)
    actor_name = models.CharField(max_length=200, blank=True)
    action = models.CharField(max_length=64, db_index=True)
    object_kind = models.CharField(max_length=64)
    object_id = models.CharField(max_length=200)
    object_name = models.CharField(max_length=300, blank=True)
    data: Any = models.JSONField(default=dict)

    class Meta:
        ordering = ["-sequence"]
        indexes = [models.Index(fields=["organization", "-sequence"], name="audit_by_organization")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(actor_kind__in=["user", "runtime", "identity", "system", "shell"]),
                name="audit_actor_kind_known",
            )
        ]
