"""The outbox: one row per card and recipient, kept until the card has reached it."""

from typing import Any

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from channels_app.models.channels import Channel
from portal.lib import ids
from portal.lib.fields import EncryptedJSONField


class Delivery(models.Model):
    """One card that must reach one recipient. Written by :mod:`channels_app.outbox.deliveries` alone.

    ``wanted_version`` counts the cards that were ever wanted for this message, ``shown_version`` says which of them
    the platform has confirmed (0: none). A row is due while they differ; only the newest card is ever sent.
    ``topic`` is the owner's opaque name for what the card is about (``confirmation:UUID``).
    """

    class Status(models.TextChoices):
        QUEUED = "queued", _("queued")
        SENDING = "sending", _("sending")
        SENT = "sent", _("sent")
        UNKNOWN = "unknown", _("unknown")
        FAILED = "failed", _("failed")
        SUPERSEDED = "superseded", _("superseded")

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    organization = models.ForeignKey(
        "portal.Organization", on_delete=models.CASCADE, related_name="deliveries"
    )
    # A channel that has history is switched off, not deleted.
    channel = models.ForeignKey(Channel, on_delete=models.PROTECT, related_name="deliveries")
    recipient = models.CharField(max_length=200)
    topic = models.CharField(max_length=100, db_index=True)
    card = EncryptedJSONField()
    wanted_version = models.PositiveIntegerField(default=1)
    shown_version = models.PositiveIntegerField(default=0)
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.QUEUED)
    # The buttons' opaque reference: the card holds it (encrypted), callbacks are compared with its digest.
    ref = EncryptedJSONField()
    ref_digest = models.CharField(max_length=64, unique=True)
    # What the platform calls the message: {"message_id", "chat_id", ...}; null until it has told us.
    handle: Any = models.JSONField(null=True, blank=True)
    message_id = models.CharField(max_length=200, blank=True)
    chat_id = models.CharField(max_length=200, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(null=True, blank=True)
    # After this time the first send is pointless; updates go on.
    send_before = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    lease = models.UUIDField(null=True, blank=True)
    last_error = models.CharField(max_length=500, null=True, blank=True)  # noqa: DJ001  # null is the contract's word
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = _("deliveries")
        ordering = ["-created_at"]
        indexes = [
            # Read by deliveries.sweep: whatever is due, oldest first.
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="delivery_due"),
            # Read by outbox.line: what waits to be sent to one recipient, oldest first.
            models.Index(
                fields=["recipient", "created_at"],
                condition=Q(due_at__isnull=False, handle__isnull=True),
                name="delivery_line",
            ),
            # Read by deliveries.resolve: the message a person tapped.
            models.Index(fields=["message_id"], condition=~Q(message_id=""), name="delivery_by_message"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["channel", "recipient", "topic"], name="one_card_per_recipient_and_topic"
            ),
            models.CheckConstraint(
                condition=Q(status__in=["queued", "sending", "sent", "unknown", "failed", "superseded"]),
                name="delivery_status_known",
            ),
            models.CheckConstraint(
                condition=Q(shown_version__lte=F("wanted_version")), name="delivery_shows_what_was_wanted"
            ),
            models.CheckConstraint(
                condition=~Q(status="sent") | Q(handle__isnull=False), name="sent_delivery_has_handle"
            ),
            models.CheckConstraint(
                condition=Q(lease__isnull=True, lease_until__isnull=True)
                | Q(lease__isnull=False, lease_until__isnull=False),
                name="delivery_lease_is_whole",
            ),
        ]

    @property
    def body_hidden(self) -> bool:
        """Whether the platform has refused this message's body, so that its card goes without one."""
        return bool((self.handle or {}).get("body_hidden"))


class DeliveryAttempt(models.Model):
    """One call to a platform for one delivery, and how it ended."""

    class Result(models.TextChoices):
        OK = "ok", _("ok")
        RETRY = "retry", _("will be repeated")
        UNKNOWN = "unknown", _("unknown")
        FAILED = "failed", _("failed")

    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="attempt_rows")
    at = models.DateTimeField()
    kind = models.CharField(max_length=8, choices=[("send", _("send")), ("update", _("update"))])
    version = models.PositiveIntegerField()
    result = models.CharField(max_length=8, choices=Result.choices)
    code = models.CharField(max_length=64, blank=True)
    message = models.CharField(max_length=500, blank=True)
    duration_ms = models.PositiveIntegerField()

    class Meta:
        ordering = ["-at"]
        constraints = [
            models.CheckConstraint(
                condition=Q(result__in=["ok", "retry", "unknown", "failed"]), name="attempt_result_known"
            )
        ]
