"""Every field of every call with everything that it does not take: refused by name, and nothing is stored.

The fields come from the OpenAPI document, the good bodies around them from the fixture ``bodies``.
"""

import gzip
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from django.apps import apps

from tests.api import values
from tests.api.client import BASE, Answer, Api, document, schema_faults
from tests.fields import Field, drop, put

OPERATIONS = [
    (method.upper(), path.removeprefix(BASE), operation)
    for path, methods in document()["paths"].items()
    for method, operation in methods.items()
]
WITH_BODY = [item for item in OPERATIONS if "requestBody" in item[2]]
UNKNOWN_ID = "3f0c9a52-6f0e-4b0e-9a3e-0d5f6c1b2a49"
PLACES = {"agent": "procurement", "slug": "ops-feishu", "number": "1", "id": UNKNOWN_ID}


def is_for_runtimes(operation: Any) -> bool:
    return any("runtimeKey" in choice for choice in operation["security"])


def known(path: str, bodies: Any, method: str) -> str:
    """The path with names of rows that exist."""
    pattern = re.sub(r"\{\w+\}", "[^/]+", path)
    found = [there for verb, there in bodies if verb == method and re.fullmatch(pattern, there)]
    return found[0] if found else re.sub(r"\{(\w+)\}", lambda match: PLACES[match[1]], path)


def counts() -> dict[str, int]:
    """How many rows each table of the portal's own has."""
    return {
        model.__name__: model._default_manager.count()
        for label in ("portal", "channels_app", "hooks_app")
        for model in apps.get_app_config(label).get_models(include_auto_created=True)
    }


def schema(operation: Any) -> dict[str, Any]:
    found: dict[str, Any] = operation["requestBody"]["content"]["application/json"]["schema"]
    return found


class Refusals:
    """Sends one call in many bad ways and keeps what was not refused as it should be."""

    def __init__(self, api: Api, bodies: Any, item: Any) -> None:
        self.method, self.template, self.operation = item
        self.api = api
        self.path = known(self.template, bodies, self.method)
        self.body = bodies.get((self.method, self.path))
        self.sent = 0
        self.wrong: list[str] = []

    def send(self, what: str, field: Field | None = None, *, status: int = 400, **request: Any) -> None:
        method, path = request.pop("method", self.method), request.pop("path", self.path)
        answer: Answer = self.api.send(method, path, **request)
        self.sent += 1
        named = field is None or field.is_named_by(answer.paths if isinstance(answer.body, dict) else [])
        if answer.status != status or not answer.code or not named:
            where = field.path if field else ""
            self.wrong.append(
                f"{self.method} {self.path} {where} {what[:80]}: {answer.status} {str(answer.body)[:300]}"
            )


def check(world: Any, bodies: Any, items: list[Any], refuse: Callable[[Refusals], int]) -> None:
    """Send the bad requests of each call; ``refuse`` returns how many there are at least. Nothing may be stored."""
    person = world.person("alice")
    before = counts()
    wrong: list[str] = []
    for item in items:
        refusals = Refusals(world.runtime if is_for_runtimes(item[2]) else person, bodies, item)
        assert refuse(refusals) <= refusals.sent, refusals.path
        wrong += refusals.wrong
    assert not wrong, "\n".join(wrong)
    assert counts() == before


def test_every_field_of_a_body(world, bodies):
    check(world, bodies, WITH_BODY, refuse_fields)


def test_every_kind_of_broken_body(world, bodies):
    check(world, bodies, WITH_BODY, refuse_bodies)


def test_every_parameter_of_an_address(world, bodies):
    check(world, bodies, OPERATIONS, refuse_parameters)


def test_every_name_in_a_path(world, bodies):
    check(world, bodies, OPERATIONS, refuse_names)


def test_every_header(world, bodies):
    check(world, bodies, OPERATIONS, refuse_headers)


def test_a_method_that_is_not_there(world, bodies):
    check(world, bodies, OPERATIONS, refuse_methods)


def refuse_fields(refusals: Refusals) -> int:
    found = list(values.walker().fields(schema(refusals.operation)))
    for index, field in enumerate(found):
        for value in values.refused(field):
            refusals.send(json.dumps(value), field, body=put(refusals.body, field.place, value))
        # What no field takes is found before any field is looked at: the fields take turns.
        for literal in values.LITERALS[index % 3 :: 3]:
            refusals.send(literal, field, raw=values.write(refusals.body, field.place, literal))
        if field.required:
            refusals.send("missing", field, body=drop(refusals.body, field.place))
        if isinstance(field.place[-1], str):
            twice = f'1, "{field.place[-1]}": 1'
            refusals.send("twice", field, raw=values.write(refusals.body, field.place, twice))
    closed = list(values.walker().closed(schema(refusals.operation)))
    assert () in closed, "the body takes fields that nobody knows"
    for place in closed:
        field = Field((*place, "zzz"), {})
        refusals.send("unknown", field, body=put(refusals.body, field.place, 1))
    return 6 * len(found) + 1


def refuse_bodies(refusals: Refusals) -> int:
    whole = Field(("body",), {})
    good = json.dumps(refusals.body).encode()
    broken = [
        b"\xef\xbb\xbf" + good, good + b" {}", good + b"x", good + b",", good[:-1], b"\xff\xfe" + good,
        good.decode().encode("utf-16"), good[:-1] + b',"\xff": 1}', b"null", b"true", b"0", b'"x"', b"[]", b"[{}]",
        b"NaN", b"-", b"{]", b"{'a': 1}", b"[" * 100_000, b'{"a":' * 100_000, b"\x00", b"a=1&b=2",
    ]  # fmt: skip
    for raw in broken:
        refusals.send(repr(raw[:40]), whole, raw=raw)
    if any(field.required for field in values.walker().fields(schema(refusals.operation))):
        refusals.send("empty", raw=b"")
        refusals.send("blank", whole, raw=b"  ")
    refusals.send("10 MB", raw=b'{"a": "' + b"x" * 10_000_000 + b'"}', status=413)
    kinds = [
        "text/plain",
        "application/xml",
        "application/json-patch+json",
        "application/jsonx",
        "x",
        "*/*",
        "",
    ]
    for kind in kinds:
        refusals.send(kind, raw=good, content_type=kind, status=415)
    for coding in ("gzip", "deflate", "br", "x", "gzip, identity"):
        for raw in (gzip.compress(good), good):
            refusals.send(coding, raw=raw, headers={"Content-Encoding": coding}, status=415)
    return 30


def refuse_parameters(refusals: Refusals) -> int:
    parameters = [item for item in refusals.operation.get("parameters", []) if item["in"] == "query"]
    for item in parameters:
        field = Field((item["name"],), item["schema"])
        for text in [
            "",
            "x",
            "-1",
            "-0",
            "1.0",
            "1e400",
            "NaN",
            "9" * 400,
            "null",
            "[]",
            "{}",
            "\0",
            "x" * 600,
        ]:
            if _is_refused(field, text):
                refusals.send(text, field, query={item["name"]: text})
        repeated = f"{refusals.path}?{item['name']}=1&{item['name']}=1"
        refusals.send("repeated", field, path=repeated)
        if field.schema.get("enum"):
            refusals.send("bytes", field, path=f"{refusals.path}?{item['name']}=%ff")
    if parameters:
        refusals.send("unknown", Field(("zzz",), {}), query={"zzz": "1"})
    return 0


def _is_refused(field: Field, text: str) -> bool:
    schema = field.schema
    if schema.get("type") == "integer":
        value = int(text) if re.fullmatch("[0-9]{1,9}", text) else None
        return value is None or not schema["minimum"] <= value <= schema["maximum"]
    return "\0" in text or schema.get("format") == "date-time" or bool(schema_faults(schema, text))


def refuse_names(refusals: Refusals) -> int:
    steps = refusals.path.split("/")
    places = [index for index, part in enumerate(refusals.template.split("/")) if part.startswith("{")]
    for index in places:
        for name in [
            "\0",
            "-0",
            "null",
            "NaN",
            "1e400",
            "9" * 5000,
            "x" * 5000,
            "[]",
            " ",
            "..%2F",
            "\ufeff",
            "'",
        ]:
            changed = "/".join([*steps[:index], quote(name, safe="%"), *steps[index + 1 :]])
            refusals.send(name, path=changed, body=refusals.body, status=404)
        changed = "/".join([*steps[:index], "%FF%FE", *steps[index + 1 :]])
        refusals.send("bytes", path=changed, body=refusals.body, status=404)
    return 13 * len(places)


def refuse_headers(refusals: Refusals) -> int:
    names = {item["name"] for item in refusals.operation.get("parameters", []) if item["in"] == "header"}
    if "Hookgate-Runtime" in names:
        field = Field(("Hookgate-Runtime",), {})
        for text in ["x" * 101, "a\tb", "a\x7f", "\xad", "a\x80"]:
            refusals.send(text, field, body=refusals.body, headers={field.path: text})
    key = refusals.api.headers["Authorization"]
    forms = [
        "",
        "x",
        "Bearer",
        "Bearer ",
        "Bearer hg_",
        "Bearer hgp_x",
        f"{key} ",
        f"{key}\0",
        f"{key}é",
        key[:-1],
    ]
    forms += [
        key.replace("Bearer", "Basic"),
        key.removeprefix("Bearer "),
        "Bearer " + "x" * 8000,
        f"{key}, {key}",
    ]
    for text in forms:
        refusals.send(text, body=refusals.body, headers={"Authorization": text}, status=401)
    return 14


@pytest.mark.parametrize("tag", ["", "x", '"', '"x', "W/", "*,", '"' + "x" * 8000 + '"', "é", "\0"])
def test_an_etag_that_is_none_is_none_that_is_held(world, bodies, tag):
    answer = world.runtime.get("/agents/procurement/registry", headers={"If-None-Match": tag})
    assert answer.status == 200


def refuse_methods(refusals: Refusals) -> int:
    verbs = ["PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]
    for verb in verbs:
        refusals.send(verb, status=405, method=verb)
        assert refusals.method in refusals.api.send(verb, refusals.path).headers["Allow"]
    return len(verbs)
