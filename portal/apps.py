"""The base app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class PortalConfig(AppConfig):
    """Organizations, people, access and audit."""

    name = "portal"
    verbose_name = _("Organization")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Make the deployment checks known, and count failed sign-ins."""
        from portal import checks, sign_ins

        assert checks
        sign_ins.connect()
