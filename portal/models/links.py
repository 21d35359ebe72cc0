"""Links with which a person chooses a password."""

from django.conf import settings
from django.db import models

from portal.lib import ids

LINK_PREFIX = "hgl_"


class AccountLink(models.Model):
    """One link: it works once, for a bounded time, and ends with the state of the account that it was made for.

    ``state`` is a digest of the password that the account had then. Rows stay: they say who let whom in.
    """

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="links")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    state = models.CharField(max_length=64, editable=False)
    # Null: the operator's, from a shell.
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    # Used, or replaced, or taken back.
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user"], condition=models.Q(ended_at__isnull=True), name="one_open_link_per_user"
            )
        ]
