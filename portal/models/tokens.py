"""Personal tokens: a person's way in for programs."""

from typing import Any

from django.conf import settings
from django.db import models

from portal.lib import ids

TOKEN_PREFIX = "hgp_"  # noqa: S105  # the public prefix, not a secret
TOKEN_SCOPES = ("read", "decide")


def default_scopes() -> list[str]:
    """A new token may read and nothing else."""
    return ["read"]


class PersonalToken(models.Model):
    """A bearer token of one person. Stored as a digest; worthless once revoked, expired or its user is inactive."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens")
    label = models.CharField(max_length=100, blank=True)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes: Any = models.JSONField(default=default_scopes)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["-created_at"]
