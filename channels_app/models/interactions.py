"""What platforms sent us, once each."""

from typing import Any

from django.db import models

from channels_app.models.channels import App, Channel
from channels_app.models.deliveries import Delivery
from portal.lib import ids
from portal.lib.fields import EncryptedJSONField


class Interaction(models.Model):
    """One authentic tap. The unique event id makes a repeated one harmless; the stored answer is given again."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    organization = models.ForeignKey(
        "portal.Organization", on_delete=models.CASCADE, related_name="interactions"
    )
    app = models.ForeignKey(App, on_delete=models.PROTECT, related_name="interactions")
    channel = models.ForeignKey(Channel, on_delete=models.PROTECT, related_name="interactions")
    event_id = models.CharField(max_length=200)
    external_id = models.CharField(max_length=200)
    delivery = models.ForeignKey(
        Delivery, null=True, blank=True, on_delete=models.SET_NULL, related_name="interactions"
    )
    action = models.CharField(max_length=64, blank=True)
    # What became of it, in one word, and the answer that the platform was given (null while it is being worked out).
    result = models.CharField(max_length=64, blank=True)
    answer: Any = EncryptedJSONField(null=True, blank=True)
    received_at = models.DateTimeField()

    class Meta:
        ordering = ["-received_at"]
        constraints = [models.UniqueConstraint(fields=["app", "event_id"], name="interaction_once")]
