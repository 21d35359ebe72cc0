"""Bodies: strict JSON, bounded, and of the one content type."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from django.core.asgi import get_asgi_application
from hookgate import canonical

from hooks_app.models import ConfirmationRequest, ConnectorCallLog
from tests import make
from tests.api.conftest import confirmation

CALLS = "/calls"
CREATE = "/confirmations"
MIB = 1024 * 1024


def with_args(world, literal, **changes):
    """A body for ``POST /confirmations`` whose ``tool_args`` are written as ``literal``."""
    return (
        json.dumps(confirmation(world.procurement, tool_args="@@", **changes))
        .replace('"@@"', literal)
        .encode()
    )


@pytest.mark.parametrize(
    ("literal", "path"),
    [
        ('{"x": NaN}', "tool_args.x"),
        ('{"x": -Infinity}', "tool_args.x"),
        ('{"x": 1e999}', "tool_args.x"),
        ('{"x": [1, 9007199254740992]}', "tool_args.x[1]"),
        ('{"x": -9007199254740992}', "tool_args.x"),
        ('{"x": ' + "9" * 5000 + "}", "tool_args.x"),
        (r'{"x": "\ud800"}', "tool_args.x"),
        (r'{"x": {"a b": "\u0000"}}', 'tool_args.x["a b"]'),
        (r'{"\u0000": 1}', None),
        ('{"x": 1, "x": 1}', "tool_args.x"),
        ('{"x": {"y": 1, "y": 2}}', "tool_args.x.y"),
        ('{"x":' * 32 + "1" + "}" * 32, "ok"),
        ('{"x":' * 33 + "1" + "}" * 33, "tool_args" + ".x" * 32),
        ('{"x":' * 5000 + "1" + "}" * 5000, None),
    ],
)
def test_arguments_that_are_no_i_json_are_refused_with_their_path(world, literal, path):
    answer = world.runtime.send("POST", CREATE, raw=with_args(world, literal))
    if path == "ok":
        assert answer.status == 201
        return
    assert answer.status == 400
    if path is not None:
        assert (answer.code, answer.paths) == ("args_not_canonical", [path])
    assert not ConfirmationRequest.objects.exists()


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"", "agent"),
        (b"{", "body"),
        (b"\xff\xfe{}", "body"),
        (b"null", "body"),
        (b"[]", "body"),
        (b'"x"', "body"),
        (b"NaN", "body"),
        (b'{"agent": "a", "agent": "b"}', "agent"),
        (rb'{"summary": "\ud83d"}', "summary"),
        (rb'{"summary": "\u0000"}', "summary"),
        (b'{"timeout_seconds": 1e400}', "timeout_seconds"),
        (b'{"initiator": {"id": 99999999999999999999}}', "initiator.id"),
        (b"{} {}", "body"),
        (b"[" * 100_000, "body"),
    ],
)
def test_any_other_fault_of_a_body_is_invalid_with_its_path(world, raw, path):
    refused = world.runtime.send("POST", CREATE, raw=raw)
    assert (refused.status, refused.code) == (400, "invalid")
    assert path in refused.paths


def test_arguments_over_256_kib_in_canonical_form_are_413(world):
    def args(size):
        return {"x": "a" * (size - len(canonical.canonicalize({"x": ""})))}

    fits = world.runtime.post(CREATE, confirmation(world.procurement, tool_args=args(256 * 1024)))
    assert fits.status == 201
    over = confirmation(world.procurement, tool_args=args(256 * 1024 + 1), tool_call_id="call_02")
    refused = world.runtime.post(CREATE, over)
    assert (refused.status, refused.code) == (413, "too_large")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", CREATE),
        ("PUT", "/agents/procurement/tools"),
        ("POST", "/limits/acquire"),
        ("POST", "/channels/ops-feishu/messages"),
    ],
)
def test_a_body_over_1_mib_is_413(world, method, path):
    make.channel(world.acme)
    at_limit = world.runtime.send(method, path, raw=b'{"a": "' + b"x" * (MIB - 9) + b'"}')
    assert at_limit.status == 400
    refused = world.runtime.send(method, path, raw=b" " * (MIB + 1))
    assert (refused.status, refused.code) == (413, "too_large")


def test_a_batch_of_calls_may_have_8_mib(world):
    entry: dict[str, Any] = {
        "id": "3f0c9a52-6f0e-4b0e-9a3e-0d5f6c1b2a49",
        "agent": "procurement",
        "tool_name": "oa__stock",
        "status": "succeeded",
        "started_at": "2026-11-02T09:30:00Z",
        "args": {"x": ""},
    }
    empty = len(json.dumps({"calls": [entry]}))
    entry["args"]["x"] = "a" * (8 * MIB - empty)
    assert world.runtime.post(CALLS, {"calls": [entry]}).status == 202
    entry["args"]["x"] += "a"
    refused = world.runtime.post(CALLS, {"calls": [entry]})
    assert (refused.status, refused.code) == (413, "too_large")
    assert ConnectorCallLog.objects.count() == 1


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml"],
)
def test_another_content_type_is_415(world, kind):
    raw = json.dumps(confirmation(world.procurement)).encode()
    refused = world.runtime.send("POST", CREATE, raw=raw, content_type=kind)
    assert (refused.status, refused.code) == (415, "unsupported_media_type")


def test_a_charset_beside_the_content_type_is_fine(world):
    raw = json.dumps(confirmation(world.procurement)).encode()
    answer = world.runtime.send("POST", CREATE, raw=raw, content_type="application/json; charset=utf-8")
    assert answer.status == 201


def test_who_asks_comes_before_what_is_asked(world):
    assert world.nobody.send("POST", CREATE, raw=b"{").status == 401
    assert world.nobody.send("POST", CREATE, raw=b" " * (MIB + 1)).status == 401
    assert world.person("bob").send("POST", CREATE, raw=b"{").code == "runtime_only"


@pytest.mark.django_db(transaction=True)
def test_a_chunked_body_is_read_and_bounded_like_any_other():
    acme = make.organization("acme")
    agent = make.agent(acme)
    key = make.key(acme)
    body = json.dumps(confirmation(agent, tool_name="calculator")).encode()

    async def chunks(data):
        for start in range(0, len(data), 64 * 1024):
            yield data[start : start + 64 * 1024]

    async def send(data):
        application: Any = get_asgi_application()
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            return await client.post(
                "/api/v1/confirmations",
                content=chunks(data),
                headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
                timeout=30,
            )

    make.user("bob", acme, "approver")
    assert asyncio.run(send(body)).status_code == 201
    refused = asyncio.run(send(b" " * (MIB + 1)))
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
