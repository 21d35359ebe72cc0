"""The channels app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ChannelsConfig(AppConfig):
    """Gets a card to people and takes their tap back."""

    name = "channels_app"
    verbose_name = _("Channels")
    default_auto_field = "django.db.models.BigAutoField"
