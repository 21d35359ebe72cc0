"""The end user for whom an agent acts, as the runtime's owner names him."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hookgate import addresses, canonical

_FIELDS: Final = ("id", "name", "email")
_LONGEST: Final = 200


def read(user: Mapping[str, Any]) -> dict[str, str | None]:
    """``{"id", "name", "email"}``, the address in its normal form. The id may be a number; without one the email
    stands in. A text that is no address is left as it is, for the portal to refuse. Raises ValueError naming the
    field."""
    unknown = sorted(set(user) - set(_FIELDS))
    if unknown:
        raise ValueError(f"user.{unknown[0]} is not a field; there are {', '.join(_FIELDS)}")
    texts = {field: None if user.get(field) is None else str(user[field]) for field in _FIELDS}
    texts["email"] = addresses.find(texts["email"]) or texts["email"]
    texts["id"] = texts["id"] or texts["email"]
    if not texts["id"]:
        raise ValueError("user.id is missing: name the end user for whom the agent acts")
    return {field: text and check_text(f"user.{field}", text) for field, text in texts.items()}


def in_conditions(initiator: Mapping[str, str | None]) -> dict[str, str | None]:
    """``user`` as conditions see it: what is no address is null there, so that none is taken for one."""
    return {**initiator, "email": addresses.find(initiator["email"])}


def check_text(field: str, text: str) -> str:
    """A text of 1 to 200 characters that every reader of I-JSON takes. Raises ValueError naming the field."""
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST:
        raise ValueError(f"{field} must be a text of 1 to {_LONGEST} characters")
    canonical.check(text, path=field)
    return text
