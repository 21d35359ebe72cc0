"""What is no JSON Schema, and what is no name, is refused wherever it is written."""

import socket
import threading
import time
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from channels_app.models import Channel
from hooks_app import json_schemas
from hooks_app.models import Action, Agent, AgentTool, ApprovalPolicy, Connector
from portal.models import Group, Organization

DEEP: dict[str, Any] = {}
for _level in range(200):
    DEEP = {"not": DEEP}
NO_SCHEMAS = {
    "a list": [],
    "a number": 7,
    "a text": "object",
    "a boolean": True,
    "a type that there is not": {"type": "strnig"},
    "a type in a property": {"type": "object", "properties": {"amount": {"type": "money"}}},
    "properties as a list": {"properties": ["amount"]},
    "required as a text": {"required": "amount"},
    "a negative length": {"minLength": -1},
    "a list of no schemas": {"anyOf": [1]},
    "an empty choice": {"anyOf": []},
    "a dialect of somebody's own": {"$schema": "https://example.test/schema"},
    "a dialect that is no text": {"$schema": 7},
    "nested too deep": DEEP,
    "too large": {"description": "x" * (json_schemas.LARGEST + 1)},
    "a number for a name": {"required": [1]},
}
SCHEMAS = {
    "an empty one": {},
    "an object": {"type": "object", "properties": {"amount": {"type": ["number", "null"], "minimum": 0}}},
    "an older dialect": {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}},
    "a reference inside": {"$defs": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a"}}},
    "a pattern of ECMAScript": {"pattern": r"^\p{L}(?<x>a)$"},
    "a key of a vendor's own": {"x-order": 3, "type": "object"},
}


@pytest.mark.parametrize("name", NO_SCHEMAS)
def test_what_is_no_schema(name: str) -> None:
    with pytest.raises(json_schemas.NotASchema) as refused:
        json_schemas.check(NO_SCHEMAS[name])
    assert len(str(refused.value)) < 400
    for model in (Action, AgentTool) if NO_SCHEMAS[name] else ():
        with pytest.raises(ValidationError) as at_field:
            model(name="pay", schema=NO_SCHEMAS[name]).clean_fields(exclude=["connector", "agent"])
        assert at_field.value.message_dict.keys() == {"schema"}


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_one(name: str) -> None:
    assert json_schemas.check(SCHEMAS[name]) is SCHEMAS[name]


def test_the_place_is_named() -> None:
    with pytest.raises(json_schemas.NotASchema, match=r"^properties\.amount\.type: "):
        json_schemas.check(NO_SCHEMAS["a type in a property"])


def test_nothing_is_fetched() -> None:
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema"

        def listen() -> None:
            try:
                server.accept()
                asked.set()
            except TimeoutError:
                pass

        listener = threading.Thread(target=listen)
        listener.start()
        json_schemas.check(
            {"$ref": url, "properties": {"a": {"$ref": f"{url}#/a", "$schema": url}}, "$id": url}
        )
        with pytest.raises(json_schemas.NotASchema):
            json_schemas.check({"$schema": url})
        listener.join()
    assert not asked.is_set()


def test_the_largest_takes_no_time() -> None:
    part: dict[str, Any] = {"allOf": [{"not": {}}] * 9000}
    began = time.perf_counter()
    json_schemas.check(part)
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize("tail", ["\n", "\r\n", "\u2028", " ", "\0", "\x85"])
@pytest.mark.parametrize(
    ("model", "field", "good"),
    [
        (Organization, "slug", "acme"),
        (Group, "slug", "finance"),
        (Agent, "slug", "procurement"),
        (ApprovalPolicy, "slug", "payments"),
        (Channel, "slug", "ops"),
        (Connector, "slug", "oa_1.b"),
        (Action, "name", "pay"),
        (Action, "name", "*"),
        (AgentTool, "name", "calculator"),
    ],
)
def test_a_name_ends_where_it_ends(model: Any, field: str, good: str, tail: str) -> None:
    column = model._meta.get_field(field)
    column.clean(good, None)
    for bad in (good + tail, tail + good):
        with pytest.raises(ValidationError):
            column.clean(bad, None)
