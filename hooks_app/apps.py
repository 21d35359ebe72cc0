"""The hooks app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class HooksConfig(AppConfig):
    """Agents, hooks, registries, confirmation requests and the call log."""

    name = "hooks_app"
    verbose_name = _("Governance")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Answer for the taps on approval cards."""
        from channels_app import topics
        from hooks_app.confirmations.rows import TOPIC_PREFIX
        from hooks_app.confirmations.taps import ApprovalsTopic

        topics.register(TOPIC_PREFIX, ApprovalsTopic())
