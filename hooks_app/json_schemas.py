"""Whether a tool's ``schema`` is a JSON Schema: said where it is written, in bounded time, and nothing is fetched."""

import json
from typing import Any

import jsonschema_rs
from django.core.exceptions import ValidationError

LARGEST = 128 * 1024  # bytes of JSON
DEEPEST = 64
_LONGEST_MESSAGE = 200
# Of a dialect that the library doesn't hold it would fetch the meta-schema.
_DIALECTS = frozenset(
    {
        "http://json-schema.org/draft-04/schema",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    }
)


class NotASchema(ValueError):
    """Why a value is no JSON Schema, with the place in it."""


def check(value: Any) -> Any:
    """``value``, which must be a JSON Schema of an object's kind. Raises :class:`NotASchema`.

    Judged by the meta-schema of its ``$schema`` (default 2020-12). What a ``$ref`` names is not looked for.
    """
    if not isinstance(value, dict):
        raise NotASchema("must be a JSON Schema: an object such as {'type': 'object', 'properties': {…}}")
    _check_depth(value)
    try:
        size = len(json.dumps(value, ensure_ascii=False).encode())
    except (TypeError, ValueError) as error:
        raise NotASchema(f"is no JSON: {error}") from error
    if size > LARGEST:
        raise NotASchema(f"is larger than {LARGEST // 1024} KiB")
    dialect = value.get("$schema")
    if isinstance(dialect, str) and dialect.removesuffix("#") not in _DIALECTS:
        raise NotASchema("$schema: is no dialect that is known here, such as 2020-12; leave it out")
    try:
        jsonschema_rs.meta.validate(value)
    except jsonschema_rs.ValidationError as error:
        raise NotASchema(_explain(error)) from error
    except (jsonschema_rs.ReferencingError, ValueError, OverflowError) as error:
        raise NotASchema(f"is no JSON Schema: {error}"[:_LONGEST_MESSAGE]) from error
    return value


def validate(value: Any) -> None:
    """The same for a column. Raises Django's ``ValidationError``."""
    try:
        check(value)
    except NotASchema as error:
        raise ValidationError(str(error), code="not_a_schema") from error


def _check_depth(value: Any) -> None:
    """Level by level: what is nested too deep may be too deep to be written as well."""
    level = [value]
    for _depth in range(DEEPEST):
        parts = [part for part in level if isinstance(part, dict | list)]
        if not parts:
            return
        level = [item for part in parts for item in (part.values() if isinstance(part, dict) else part)]
    raise NotASchema(f"is nested deeper than {DEEPEST} levels")


def _explain(error: jsonschema_rs.ValidationError) -> str:
    path = ".".join(str(part) for part in error.instance_path)
    message = (
        error.message if len(error.message) <= _LONGEST_MESSAGE else f"{error.message[:_LONGEST_MESSAGE]}…"
    )
    return f"{path}: {message}" if path else f"is no JSON Schema: {message}"
