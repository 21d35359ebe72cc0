"""Runtime keys."""

from typing import Any

from django.conf import settings
from django.db import models

from hooks_app.models.agents import Agent
from portal.lib import ids

KEY_PREFIX = "hg_"
KEY_SCOPES = ("registry", "confirmations", "calls", "limits", "tools", "notify", "eval")


def default_scopes() -> list[str]:
    """All but ``eval``, which takes the hooks away."""
    return [scope for scope in KEY_SCOPES if scope != "eval"]


class RuntimeKey(models.Model):
    """The bearer key of a runtime: of one agent, or of every agent of one organization. Stored as a digest."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    organization = models.ForeignKey(
        "portal.Organization", on_delete=models.CASCADE, related_name="runtime_keys"
    )
    agent = models.ForeignKey(Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="keys")
    label = models.CharField(max_length=100, blank=True)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes: Any = models.JSONField(default=default_scopes)
    # Set when a person made the key in the portal; it dies with that account.
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["-created_at"]
