"""The types of fields in requests. Nothing is coerced: a number in quotes is not a number.

``Uuid`` and ``Moment`` read the one JSON spelling of what they are. ``ReadWhole`` and ``ReadQueryWhole`` stand behind
the bounds of an ``int``, so that these are part of its JSON Schema. Everything bounds its length.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from hookgate import addresses, call_ids, canonical
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    StringConstraints,
    WithJsonSchema,
)

from portal.lib import ids

# RFC 3339, section 5.6.
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"
NO_NUL = r"^[^\u0000]*$"
# Stands for the component IJson, which :mod:`hooks_app.api.openapi` puts into the document: a model can't name it.
I_JSON = {"x-i-json": True}


class Body(BaseModel):
    """Base of every request: an unknown field is an error, and no value is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _read_uuid(value: Any) -> Any:
    found = ids.parse(value) if isinstance(value, str) else None
    if found is None or str(found) != value.lower():
        raise ValueError("must be a UUID such as 3f0c9a52-6f0e-4b0e-9a3e-0d5f6c1b2a49")
    return found


def _read_moment(value: Any) -> Any:
    if isinstance(value, str) and _RFC3339.fullmatch(value):
        try:
            return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value.upper())).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise ValueError("must be an RFC 3339 time with an offset, such as 2026-11-02T09:30:00Z")


def _read_whole(value: Any) -> Any:
    # JSON has one kind of number: 60.0 is the integer 60.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _read_query_whole(value: Any) -> Any:
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value) else value


def check_text(value: str) -> str:
    """``value``, unless it holds what no column can: NUL or a lone surrogate. Raises ``ValueError``."""
    try:
        canonical.check(value)
    except canonical.NotCanonical as error:
        raise ValueError(error.message) from None
    return value


class _NoNul:
    """Describes what no text in a body may hold; the parser refuses it before any field is looked at."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(core_schema) | {"pattern": NO_NUL}


Uuid = Annotated[UUID, BeforeValidator(_read_uuid), WithJsonSchema({"type": "string", "format": "uuid"})]
Moment = Annotated[
    datetime, BeforeValidator(_read_moment), WithJsonSchema({"type": "string", "format": "date-time"})
]
ReadWhole = BeforeValidator(_read_whole)
ReadQueryWhole = BeforeValidator(_read_query_whole)
_Plain = Annotated[str, AfterValidator(check_text), _NoNul()]
Name = Annotated[_Plain, StringConstraints(min_length=1, max_length=200)]
Text = Annotated[_Plain, StringConstraints(max_length=200)]
CallId = Annotated[_Plain, StringConstraints(min_length=1, max_length=call_ids.LONGEST)]
LoggedId = Annotated[_Plain, StringConstraints(max_length=call_ids.LONGEST)]
Note = Annotated[_Plain, StringConstraints(max_length=2000)]
LongText = Annotated[_Plain, StringConstraints(max_length=10_000)]
Email = Annotated[_Plain, StringConstraints(max_length=254)]
# One address; what is none is refused by confirmations.proposals, which knows the one normal form.
Address = Annotated[
    _Plain,
    StringConstraints(max_length=254),
    WithJsonSchema({"type": "string", "format": "email", "maxLength": 254}),
]
# Likewise: what people would read as another id. Of the basic plane, which is what a pattern can name everywhere.
_UNSEEN = r"\u0000-\u001f\u007f-\u009f\ue000-\uf8ff" + "".join(
    f"\\u{first:04x}-\\u{last:04x}" for first, last in addresses.UNSEEN if last <= 0xFFFF
)
_SEEN = rf"^[^\s{_UNSEEN}]([^{_UNSEEN}]*[^\s{_UNSEEN}])?$"
PersonId = Annotated[
    _Plain,
    StringConstraints(min_length=1, max_length=200),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200, "pattern": _SEEN}),
]
AgentReference = Annotated[_Plain, StringConstraints(min_length=1, max_length=64)]
SlugReference = Annotated[_Plain, StringConstraints(min_length=1, max_length=64)]
Digest = Annotated[str, StringConstraints(pattern=DIGEST_PATTERN)]
IJson = Annotated[Any, WithJsonSchema(I_JSON)]
Object = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "propertyNames": {"pattern": NO_NUL}, "additionalProperties": I_JSON}),
]
