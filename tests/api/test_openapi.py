"""The OpenAPI document and the page of it."""

import json
import re

import pytest
from django.test import Client
from drf_spectacular.validation import validate_schema

from hooks_app.config import schema as config_schema
from tests.api.client import document, schema_faults

CALLS = {
    ("get", "/agents/{agent}/registry"),
    ("get", "/agents/{agent}/registry/revisions"),
    ("get", "/agents/{agent}/registry/revisions/{number}"),
    ("get", "/agents/{agent}/events"),
    ("put", "/agents/{agent}/tools"),
    ("get", "/confirmations"),
    ("post", "/confirmations"),
    ("get", "/confirmations/{id}"),
    ("post", "/confirmations/{id}/respond"),
    ("post", "/confirmations/{id}/consume"),
    ("post", "/confirmations/{id}/outcome"),
    ("post", "/confirmations/{id}/cancel"),
    ("get", "/calls"),
    ("post", "/calls"),
    ("get", "/calls/{id}"),
    ("post", "/limits/acquire"),
    ("post", "/channels/{slug}/messages"),
}


def operations():
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_the_document_is_served_to_anybody_and_valid_openapi_3_1(db):
    answer = Client().get("/api/v1/schema/")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("application/json")
    served = answer.json()
    assert served == document()
    assert served["openapi"].startswith("3.1")
    validate_schema(served)


def test_every_reference_leads_somewhere():
    for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document())):
        assert name in document()["components"]["schemas"], name


def test_every_call_of_the_contract_is_described():
    assert {(method, path.removeprefix("/api/v1")) for method, path, _ in operations()} == CALLS


def test_every_call_says_who_may_make_it_and_how_it_is_refused():
    schemes = set(document()["components"]["securitySchemes"])
    assert schemes == {"runtimeKey", "personalToken", "session"}
    for method, path, operation in operations():
        assert operation["security"], path
        assert {name for choice in operation["security"] for name in choice} <= schemes
        wanted = {"401", "403"} | ({"400", "413", "415"} if "requestBody" in operation else set())
        if "{" in path:
            wanted.add("404")
        assert wanted <= set(operation["responses"]), (method, path)
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"]
        assert operation["summary"]
        assert operation["description"]


def test_lists_name_their_parameters():
    parameters = {
        path: {item["name"] for item in operation["parameters"] if item["in"] == "query"}
        for method, path, operation in operations()
        if method == "get"
    }
    assert parameters["/api/v1/confirmations"] == {"status", "agent", "cursor", "limit"}
    assert parameters["/api/v1/confirmations/{id}"] == {"wait"}
    assert parameters["/api/v1/calls"] == {
        "agent", "tool", "status", "user", "hook", "from", "to", "cursor", "limit",
    }  # fmt: skip
    assert parameters["/api/v1/agents/{agent}/registry"] == {"surface"}


def test_the_contracts_examples_fit_the_described_bodies():
    example = {
        "agent": "procurement", "conversation_id": "c7", "tool_call_id": "call_01", "tool_name": "oa__purchase_pay",
        "tool_args": {"amount": 60000}, "hook": "approval_gate", "registry_digest": "sha256:" + "0" * 64,
        "initiator": {"id": "u42", "name": "Kim", "email": "kim@acme.test"}, "summary": "optional text",
        "timeout_seconds": 60, "channel": None, "policy": None, "parent": None,
    }  # fmt: skip
    schema = {"$ref": "#/components/schemas/NewConfirmation"}
    assert schema_faults(schema, example) == []
    for name, value in (("timeout_seconds", 0), ("extra", 1), ("tool_args", []), ("registry_digest", "x")):
        assert schema_faults(schema, {**example, name: value}), name
    assert schema_faults(schema, {key: example[key] for key in example if key != "agent"})


def test_the_page_shows_every_call_and_asks_no_other_host(db):
    answer = Client().get("/api/v1/docs/")
    page = answer.content.decode()
    assert answer.status_code == 200
    for _, path, operation in operations():
        assert path in page
        assert f'id="{operation["operationId"]}"' in page
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert "<script" not in page
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets <= set(re.findall(r'id="([^"]+)"', page))


def test_the_schema_of_the_configuration_file_is_public(db):
    answer = Client().get("/api/v1/config.schema.json")
    assert answer.status_code == 200
    assert answer.json() == json.loads(json.dumps(config_schema.json_schema()))


@pytest.mark.parametrize("path", ["schema/", "docs/", "config.schema.json"])
def test_documents_are_only_read(db, path):
    for method in ("post", "put", "delete"):
        answer = getattr(Client(enforce_csrf_checks=True), method)(f"/api/v1/{path}")
        assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
        assert answer.headers["Allow"] == "GET, HEAD"
