"""Bad values for every field of the API's bodies and addresses."""

import json
from collections.abc import Iterator
from typing import Any

from tests.api.client import document, schema_faults
from tests.fields import Field, Walker, put

# One or more of each JSON type; which of them a field refuses, its schema says.
JSON_VALUES: list[Any] = [
    None, True, 7, -1, 1.5, 10**18, "x", "", "x" * 20_001, "sha256:" + "G" * 64, [], [None] * 2001, {}, {"zzz": 1},
]  # fmt: skip
# JSON texts that no field takes, whatever its type.
LITERALS = [
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1" + "0" * 400, r'"\u0000"', r'{"\u0000": 1}',
    r'"\ud800"', r'{"\udfff": 1}', '{"a": 1, "a": 1}', "[" * 80 + "]" * 80, '{"a":' * 80 + "1" + "}" * 80,
]  # fmt: skip
FORMATS = {
    "date-time": [
        "x",
        "2026-02-30T00:00:00Z",
        "2026-11-02",
        "2026-11-02T09:30:00",
        "2026-11-02T25:00:00Z",
        "0",
    ],
    "uuid": ["x", "3f0c9a526f0e4b0e9a3e0d5f6c1b2a49", "{3f0c9a52-6f0e-4b0e-9a3e-0d5f6c1b2a49}"],
}


def walker() -> Walker:
    """Walks the schemas of the OpenAPI document; what is I-JSON is one field."""
    return Walker(document()["components"]["schemas"], frozenset({"IJson"}))


def refused(field: Field) -> Iterator[Any]:
    """The JSON values that the field does not take."""
    for value in JSON_VALUES:
        if schema_faults(field.schema, value):
            yield value
    for choice in walker().choices(field.schema):
        yield from FORMATS.get(choice.get("format", ""), [])


def write(body: Any, place: tuple[Any, ...], literal: str) -> bytes:
    """``body`` as JSON, with the JSON text ``literal`` at ``place``."""
    return json.dumps(put(body, place, "@@")).replace('"@@"', literal).encode()
