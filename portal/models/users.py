"""The portal's user."""

from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from portal.lib import clock, ids, visible
from portal.lib.fields import AddressField


class User(AbstractUser):
    """A person with a portal account. An inactive user's sessions, tokens and votes count for nothing."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    # What an initiator is matched by; comparisons are of its normal form.
    email = AddressField(_("email address"), blank=True)
    # When the account was given a way in for the first time: a password, a link, a token, a session or a subject of an
    # identity provider. Null: nobody has ever been able to act as this person.
    first_credential_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Since when the password has been one that the person chose. Null: who gave it may know it, or there is none.
    password_own_since = models.DateTimeField(null=True, blank=True, editable=False)

    def clean(self) -> None:
        """A name that holds what nobody sees is a second person who looks like the first. Raises ValidationError."""
        super().clean()
        if visible.hides(self.username):
            text = _("This name holds a character that nobody sees: %(name)s") % {
                "name": visible.line(self.username)
            }
            raise ValidationError({"username": text})

    @property
    def display_name(self) -> str:
        """What other people see: the full name, or the user name when there is none."""
        return self.get_full_name() or self.username

    def set_password(self, raw_password: str | None) -> None:
        """As Django's. Whoever calls it may know the password, unless :mod:`portal.people.accounts` says otherwise."""
        super().set_password(raw_password)
        self.password_own_since = None
        if raw_password is not None and self.first_credential_at is None:
            self.first_credential_at = clock.now()
