"""Rows of the channels app: bots, the people on them, and what is on its way to them."""

from channels_app.models.channels import App, Channel, Identity, Language
from channels_app.models.deliveries import Delivery, DeliveryAttempt
from channels_app.models.interactions import Interaction

__all__ = ["App", "Channel", "Delivery", "DeliveryAttempt", "Identity", "Interaction", "Language"]
