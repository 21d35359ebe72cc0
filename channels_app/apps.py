"""The channels app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ChannelsConfig(AppConfig):
    """Gets a card to people and takes their tap back."""

    name = "channels_app"
    verbose_name = _("Channels")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Answer for the topics that are this app's own."""
        from channels_app import probes, topics

        topics.register(probes.PREFIX, probes.Probes())
