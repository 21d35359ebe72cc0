"""The scalar types of the config file: texts with a form, each with a message that says what fits."""

import re
from datetime import date
from typing import Annotated, Any
from zoneinfo import available_timezones

from hookgate import addresses
from hookgate.matching import matching
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from hooks_app import json_schemas
from hooks_app.conditions import walks
from hooks_app.models.connectors import ACTION_PATTERN, CONNECTOR_PATTERN
from portal.lib import visible
from portal.models import User
from portal.models.organizations import SLUG_PATTERN

_USERNAME_PATTERN = r"^[\w.@+-]{1,150}$"
_TOOL_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$"
_INDEX = re.compile(r"\[(\d*|\*)\]")
_TARGET_PATTERN = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"


def _refuse(message: str) -> PydanticCustomError:
    # The message is no template: what it says may hold braces.
    return PydanticCustomError("invalid", "{message}", {"message": message})


def _fits(pattern: str, message: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        # `$` would let a final line break through.
        if not compiled.fullmatch(value):
            raise _refuse(message)
        return value

    return AfterValidator(check)


def _check_normal(value: str) -> str:
    # What looks alike is one name, as everywhere that user names are made.
    if User.normalize_username(value) != value:
        raise _refuse(f"must be written as {User.normalize_username(value)}")
    if visible.hides(value):
        raise _refuse(f"must not hold what nobody sees: {visible.line(value)}")
    return value


def _check_email(value: str) -> str:
    try:
        return addresses.normalize(value)
    except addresses.NotAnAddress as error:
        raise _refuse(str(error)) from None


def _check_time_zone(value: str) -> str:
    if value not in available_timezones():
        raise _refuse("must be an IANA time zone such as Asia/Seoul")
    return value


def _check_condition(value: str) -> str:
    try:
        walks.compile(value)
    except matching.MatchError as error:
        raise _refuse(error.message) from None
    return value


def check_schema(value: dict[str, Any]) -> dict[str, Any]:
    """``value``, which must be a JSON Schema. Raises pydantic's error."""
    try:
        json_schemas.check(value)
    except json_schemas.NotASchema as error:
        raise _refuse(str(error)) from None
    return value


def _read_day(value: Any) -> date:
    if isinstance(value, date):
        return value
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise _refuse("must be a date such as 2026-12-01")


def _check_redacted(value: str) -> str:
    # Such a path would match nothing, and hide nothing, without a word.
    if any(not step.strip() or _INDEX.search(step) for step in value.split(".")):
        raise _refuse(
            "must be a key such as card_number, or a path such as payer.card; lists are passed through unnamed"
        )
    return value


Slug = Annotated[
    str,
    _fits(
        SLUG_PATTERN, "must be 1 to 64 lower-case letters, digits and hyphens, with no hyphen at either end"
    ),
    WithJsonSchema({"type": "string", "pattern": SLUG_PATTERN, "maxLength": 64}),
]
ConnectorSlug = Annotated[
    str,
    _fits(
        CONNECTOR_PATTERN,
        "must be 1 to 64 letters, digits and . _ -, begin with a letter or digit, hold no __ and not end in _",
    ),
    WithJsonSchema({"type": "string", "pattern": CONNECTOR_PATTERN, "maxLength": 64}),
]
ActionName = Annotated[
    str,
    _fits(ACTION_PATTERN, "must be * or at most 128 letters, digits and _ . : / -"),
    WithJsonSchema({"type": "string", "pattern": ACTION_PATTERN}),
]
ToolName = Annotated[
    str,
    _fits(_TOOL_PATTERN, "must be at most 128 letters, digits and _ . : / -"),
    WithJsonSchema({"type": "string", "pattern": _TOOL_PATTERN}),
]
UserName = Annotated[
    str,
    _fits(_USERNAME_PATTERN, "must be 1 to 150 letters, digits and . @ + - _"),
    AfterValidator(_check_normal),
    WithJsonSchema({"type": "string", "pattern": _USERNAME_PATTERN}),
]
RedactedPath = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_redacted)]
HandlerTarget = Annotated[
    str,
    _fits(_TARGET_PATTERN, "must be package.module:callable"),
    WithJsonSchema({"type": "string", "pattern": _TARGET_PATTERN}),
]
ExternalId = Annotated[
    str,
    Field(max_length=200),
    _fits(r"\S+", "must be the platform's id of the account, such as ou_…, without blanks"),
    WithJsonSchema({"type": "string", "pattern": r"^\S+$", "maxLength": 200}),
]
Email = Annotated[
    str,
    Field(max_length=254),
    AfterValidator(_check_email),
    WithJsonSchema({"type": "string", "format": "email"}),
]
TimeZone = Annotated[str, AfterValidator(_check_time_zone)]
Condition = Annotated[str, AfterValidator(_check_condition)]
Day = Annotated[date, BeforeValidator(_read_day), WithJsonSchema({"type": "string", "format": "date"})]
