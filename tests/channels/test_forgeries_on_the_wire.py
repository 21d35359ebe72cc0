"""What only a socket, or another process, shows of a forged callback."""

import asyncio
import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from channels_app.models import Interaction
from portal.asgi import application
from portal.serving import bounds
from portal.wakeups import wakeups
from tests.channels import forging
from tests.channels.forging import SIGNATURE, Scene, Sent, sign
from tests.machinery.live import DEADLINE, Portal, start_elsewhere

MIB = 1024 * 1024
PATH = Sent(b"").path


@pytest.fixture
def scene(transactional_db: None) -> Scene:
    return forging.build()


@pytest.fixture
def portal(scene: Scene) -> Iterator[Portal]:
    wakeups.stop()
    running = Portal()
    running.start()
    yield running
    running.stop()


def post(
    portal: Portal, sent: Sent, *, headers: list[tuple[str, str]] | None = None, body: Any = None
) -> Any:
    return httpx.post(
        portal.url + sent.path,
        content=sent.body if body is None else body,
        headers=headers or list(sent.headers.items()),
        timeout=DEADLINE,
        trust_env=False,
    )


def test_a_server_refuses_what_is_too_large_and_headers_that_come_twice(portal: Portal, scene: Scene) -> None:
    before = forging.rows()
    large = sign(b"x" * (MIB + 1))
    chunks = (large.body[start : start + 65536] for start in range(0, len(large.body), 65536))
    for body in (large.body, chunks):
        answer = post(portal, large, body=body)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert post(portal, Sent(b"x" * MIB)).status_code == 401

    genuine = scene.tap()
    headers = list(genuine.headers.items())
    for other in (genuine.headers[SIGNATURE], "0" * 64, ""):
        for order in ([*headers, (SIGNATURE, other)], [(SIGNATURE, other), *headers]):
            answer = post(portal, genuine, headers=order)
            # Two of a name are joined by a comma, which fits nothing.
            assert (answer.status_code, answer.json()["code"]) == (401, "signature_wrong"), other
    assert forging.rows() == before
    assert (
        post(portal, genuine, headers=[(name.lower(), value) for name, value in headers]).status_code == 200
    )
    assert forging.status(scene) == "approved"


@pytest.mark.parametrize("announced", [b"1099511627776", None])
def test_a_body_without_end_is_not_read_to_its_end(announced: bytes | None) -> None:
    """Nothing is kept of it, and the answer comes after a bounded part of it."""
    pulled = 0
    sent: list[Any] = []

    async def receive() -> Any:
        nonlocal pulled
        pulled += 65536
        return {"type": "http.request", "body": bytes(65536), "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), *([(b"content-length", announced)] if announced else [])]
    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": PATH, "raw_path": PATH.encode(),
        "query_string": b"", "root_path": "", "scheme": "http", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    asyncio.run(application(scope, receive, send))
    assert sent[0]["status"] == 413
    assert pulled <= bounds.DRAIN_LIMIT + 65536


def test_recorded_bytes_have_no_effect_after_a_restart(scene: Scene) -> None:
    """Another process, which shares nothing but the database, gives the stored answer and does nothing else."""
    sent = scene.tap()
    first = scene.post(sent)
    assert (first.status, first.word) == (200, "accepted")
    before = forging.rows()
    facts = json.dumps(
        {"path": sent.path, "headers": sent.headers, "body": sent.body.decode(),
         "answer": base64.b64encode(first.body).decode()}
    )  # fmt: skip
    code = f"""
    import base64, json
    from django.test import Client
    facts = json.loads({facts!r})
    answer = Client(HTTP_HOST="127.0.0.1").generic(
        "POST", facts["path"], facts["body"].encode(), "application/json", headers=facts["headers"]
    )
    assert answer.status_code == 200, answer.content
    assert answer.content == base64.b64decode(facts["answer"])
    """
    process = start_elsewhere(code)
    process.communicate("\n", timeout=60)
    assert process.returncode == 0
    assert forging.rows() == before
    assert Interaction.objects.count() == 1
    assert scene.post(replace(sent, body=sent.body + b" ")).status == 401
