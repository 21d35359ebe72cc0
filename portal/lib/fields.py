"""Model fields that encrypt what they store."""

import json
from typing import Any

from django.db import models

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
