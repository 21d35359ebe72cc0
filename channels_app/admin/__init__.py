"""Admin pages of the channels app."""

from channels_app.admin import channels, deliveries, identities, interactions

__all__ = ["channels", "deliveries", "identities", "interactions"]
