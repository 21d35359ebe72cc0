"""A client of the API that holds every answer against the OpenAPI document."""

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.test import Client
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from hooks_app.api import documents

BASE = "/api/v1"
DOCUMENT = "urn:openapi"


@cache
def document() -> dict[str, Any]:
    return documents.openapi()


@cache
def _registry() -> Any:
    return Registry().with_resource(DOCUMENT, DRAFT202012.create_resource(document()))


def operation(method: str, path: str) -> Any:
    """The operation of the document that a request is for, or ``None``."""
    for template, methods in sorted(document()["paths"].items(), key=lambda item: item[0].count("{")):
        pattern = re.sub(r"\{\w+\}", "[^/]+", template)
        if re.fullmatch(pattern, path) and method.lower() in methods:
            return methods[method.lower()]
    return None


def schema_faults(schema: dict[str, Any], value: Any) -> list[str]:
    """What of ``value`` contradicts ``schema`` of the document."""
    errors = _validator(json.dumps(schema)).iter_errors(value)
    return [f"{error.json_path}: {error.message}" for error in errors]


@cache
def _validator(schema: str) -> Any:
    absolute = json.loads(schema.replace('"#/', f'"{DOCUMENT}#/'))
    checker = Draft202012Validator.FORMAT_CHECKER
    return Draft202012Validator(absolute, registry=_registry(), format_checker=checker)


@dataclass
class Answer:
    """Status, decoded body (``None`` if there is none) and headers."""

    status: int
    body: Any
    headers: Any

    @property
    def code(self) -> str:
        """The problem's code; empty for an answer that is none."""
        return self.body.get("code", "") if isinstance(self.body, dict) else ""

    @property
    def paths(self) -> list[str]:
        """The paths of the fields at fault."""
        return [error["path"] for error in self.body.get("errors", [])]


class Api:
    """One caller: a bearer credential, a signed-in user, or nobody."""

    def __init__(self, bearer: str | None = None, *, user: Any = None, csrf: bool = False) -> None:
        self.client = Client(enforce_csrf_checks=csrf)
        self.headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        if user is not None:
            self.client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")

    def get(self, path: str, headers: dict[str, str] | None = None, **query: Any) -> Answer:
        named = {name.rstrip("_"): value for name, value in query.items()}
        return self.send("GET", path, query=named, headers=headers)

    def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self.send("POST", path, body=body, **more)

    def put(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self.send("PUT", path, body=body, **more)

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        raw: bytes | None = None,
        content_type: str = "application/json",
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        response = self.client.generic(
            method,
            f"{BASE}{path}",
            data,
            content_type if data else "",
            query_params=query,
            headers={**self.headers, **(headers or {})},
        )
        return _check(method, f"{BASE}{path}", response)


def _check(method: str, path: str, response: Any) -> Answer:
    kind = response.headers.get("Content-Type", "")
    body = json.loads(response.content) if response.content and "json" in kind else None
    answer = Answer(response.status_code, body, response.headers)
    assert answer.status != 500, answer
    if answer.status >= 400:
        assert kind == "application/problem+json", (answer.status, kind)
        assert body is not None
        assert body["status"] == answer.status
        assert body["type"]
        assert body["title"]
        assert body["detail"]
    found = operation(method, path)
    if found is not None and answer.status != 405:
        declared = found["responses"].get(str(answer.status))
        assert declared is not None, f"{method} {path} answered {answer.status}: {body}"
        for media in declared.get("content", {}).values():
            faults = schema_faults(media["schema"], body)
            assert not faults, faults
        assert bool(declared.get("content")) == bool(response.content), (method, path, answer.status)
    return answer
