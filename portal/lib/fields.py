"""Model fields: values that are encrypted at rest, and addresses in their one normal form."""

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _
from hookgate import addresses

from portal.lib import crypto


class EncryptedJSONField(models.TextField):  # type: ignore[type-arg]
    """A JSON value, encrypted at rest with :mod:`portal.lib.crypto`.

    Reads raise :class:`portal.lib.crypto.DecryptionFailed` when no configured key fits: a wrong key must never look
    like an empty value. The column can't be filtered on.
    """

    # What the Django plugin of mypy reads: any JSON value may be set.
    _pyi_private_set_type: Any

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        return None if value is None else json.loads(crypto.decrypt(value))

    def to_python(self, value: Any) -> Any:
        return value

    def get_prep_value(self, value: Any) -> str | None:
        if value is None:
            return None
        return crypto.encrypt(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8"))


def validate_address(text: str) -> None:
    """Raises Django's ``ValidationError`` for what is no e-mail address."""
    if addresses.find(text) is None:
        raise ValidationError(
            _("Write one address, such as kim@example.com, without a name or invisible characters."),
            code="invalid",
        )


class AddressFormField(forms.CharField):
    """A form's field of an address; its cleaned value is the normal form."""

    default_validators = [validate_address]

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        return addresses.find(text) or text


class AddressField(models.EmailField):  # type: ignore[type-arg]
    """An e-mail address, stored and looked up in the one normal form of :mod:`hookgate.addresses`.

    A text that is no address (an account from before the rule may have one) stays as it is, and equals no address.
    """

    default_validators = [validate_address]

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        value = self.get_prep_value(super().pre_save(model_instance, add))
        setattr(model_instance, self.attname, value)
        return value

    def get_prep_value(self, value: Any) -> Any:
        text = super().get_prep_value(value)
        return addresses.find(text) or text if isinstance(text, str) else text

    def formfield(self, **kwargs: Any) -> Any:
        return super().formfield(**{"form_class": AddressFormField, **kwargs})
