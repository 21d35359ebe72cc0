"""The portal's user."""

from django.contrib.auth.models import AbstractUser
from django.db import models

from portal.lib import ids


class User(AbstractUser):
    """A person with a portal account. An inactive user's sessions, tokens and votes count for nothing."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)

    @property
    def display_name(self) -> str:
        """What other people see: the full name, or the user name when there is none."""
        return self.get_full_name() or self.username
