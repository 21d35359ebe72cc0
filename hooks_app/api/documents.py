"""What describes the API: the OpenAPI document, a page of it for people, and the schema of the configuration file."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.generators import SchemaGenerator

from hooks_app.config import schema as config_schema
from portal.api import problems
from portal.lib.problems import Problem, not_found

View = Callable[[HttpRequest], HttpResponse]
# The generator looks for its extensions on first use, and two threads that do so at once fail.
_GENERATING = threading.Lock()


def _public(view: View) -> View:
    """A document that anybody may read, and nobody may do anything else with."""

    @login_not_required
    @csrf_exempt
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        if request.method in ("GET", "HEAD"):
            return view(request)
        refused = problems.respond(Problem(405, "method_not_allowed", "This document is only read."))
        refused["Allow"] = "GET, HEAD"
        return refused

    return answer


def openapi() -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    document: dict[str, Any] = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return document


@cache
def _texts() -> dict[str, bytes]:
    """The documents, which anybody may ask for and which take a tenth of a second each: made once a process."""
    document = openapi()
    page = {
        "info": document["info"],
        "groups": _groups(document),
        "security": document["components"]["securitySchemes"],
        "schemas": [
            (name, part.get("description", ""), list(_fields(part)))
            for name, part in document["components"]["schemas"].items()
        ],
    }
    return {
        "openapi": JsonResponse(document).content,
        "page": render_to_string("hooks_app/api_docs.html", page).encode(),
        "configuration": JsonResponse(config_schema.json_schema()).content,
    }


def _text(name: str) -> bytes:
    with _GENERATING:
        return _texts()[name]


@_public
def schema(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document as JSON."""
    return HttpResponse(_text("openapi"), content_type="application/json")


@_public
def docs(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document as a page that needs no script and no other host."""
    return HttpResponse(_text("page"))


@_public
def configuration(request: HttpRequest) -> HttpResponse:
    """JSON Schema of the configuration file."""
    return HttpResponse(_text("configuration"), content_type="application/schema+json")


@login_not_required
@csrf_exempt
def missing(request: HttpRequest) -> HttpResponse:
    """404 in the API's own form, for every other address below it."""
    return problems.respond(not_found())


@dataclass(frozen=True)
class _Operation:
    """One call, as the page shows it."""

    method: str
    path: str
    facts: dict[str, Any]

    @property
    def credentials(self) -> list[str]:
        return [name for choice in self.facts.get("security", []) for name in choice]

    @property
    def parameters(self) -> list[tuple[str, str, str, str]]:
        return [
            (item["name"], item["in"], _words(item["schema"]), item.get("description", ""))
            for item in self.facts.get("parameters", [])
        ]

    @property
    def takes(self) -> str:
        return _content(self.facts.get("requestBody", {}))

    @property
    def answers(self) -> list[tuple[str, str, str]]:
        return [
            (status, _content(answer), answer.get("description", ""))
            for status, answer in sorted(self.facts["responses"].items())
        ]


def _groups(document: dict[str, Any]) -> dict[str, list[_Operation]]:
    groups: dict[str, list[_Operation]] = {}
    for path, methods in document["paths"].items():
        for method, facts in methods.items():
            groups.setdefault(facts["tags"][0], []).append(_Operation(method.upper(), path, facts))
    return groups


def _content(part: dict[str, Any]) -> str:
    """The name of the component that a body is; empty for a body without a name."""
    schemas = (media.get("schema", {}) for media in part.get("content", {}).values())
    return next((_words(schema) for schema in schemas if "$ref" in schema), "")


def _fields(schema: dict[str, Any]) -> list[tuple[str, str, bool, str]]:
    required = schema.get("required", [])
    return [
        (name, _words(part), name in required, part.get("description", ""))
        for name, part in schema.get("properties", {}).items()
    ]


def _words(schema: dict[str, Any]) -> str:
    """A schema in one line: ``Confirmation``, ``string (uuid) or null``, ``list of Tool``."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_words(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_words(schema.get('items', {}))}"
    kind = str(schema.get("type", "any"))
    return f"{kind} ({schema['format']})" if "format" in schema else kind
