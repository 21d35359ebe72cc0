"""The hooks app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class HooksConfig(AppConfig):
    """Agents, hooks, registries, confirmation requests and the call log."""

    name = "hooks_app"
    verbose_name = _("Governance")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Answer for the taps on approval cards, and name after a migration what this release takes no more."""
        from channels_app import topics
        from hooks_app.confirmations.rows import TOPIC_PREFIX
        from hooks_app.confirmations.taps import ApprovalsTopic
        from hooks_app.registry import old_matchers

        topics.register(TOPIC_PREFIX, ApprovalsTopic())
        post_migrate.connect(old_matchers.tell, sender=self)
