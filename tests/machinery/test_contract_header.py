"""Every answer under /api/v1 names the version of the contract, whoever makes it."""

import asyncio
import contextlib
from typing import Any

import hookgate.contract
import httpx
import pytest
from django.db import OperationalError

from hooks_app.registry import heads, polls
from portal import contract
from portal.contract import NamedContract
from tests.machinery.live import Portal

REGISTRY = "/api/v1/agents/procurement/registry"


def test_both_sides_mean_the_same() -> None:
    assert (contract.VERSION, contract.HEADER) == (hookgate.contract.VERSION, hookgate.contract.HEADER)
    for value in (None, "", "2", "3", " 3 ", "three", "3.1", "-3", "9" * 400, "٣"):
        assert contract.read(value) == hookgate.contract.read(value)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", REGISTRY, 200),
        ("HEAD", REGISTRY, 200),
        ("GET", f"{REGISTRY}?surface=moon", 400),
        ("GET", "/api/v1/agents/ghost/registry", 404),
        ("GET", "/api/v1/nothing/here", 404),
        ("GET", "/api/v1", 301),
        ("GET", "/api/v1/", 404),
        ("DELETE", REGISTRY, 405),
        ("OPTIONS", REGISTRY, 405),
        ("POST", "/api/v1/confirmations", 400),
        ("GET", "/api/v1/confirmations/00000000-0000-0000-0000-000000000000?wait=1", 404),
        ("GET", "/api/v1/agents/ghost/events", 404),
        ("GET", "/api/v1/schema/", 200),
        ("GET", "/api/v1/docs/", 200),
    ],
)
def test_answers_of_the_views(portal: Portal, world: Any, method: str, path: str, status: int) -> None:
    answer = httpx.request(method, portal.url + path, headers={"Authorization": f"Bearer {world.key}"})
    assert (answer.status_code, answer.headers.get_list("Hookgate-Contract")) == (status, ["3"])


def test_answers_that_django_never_sees(portal: Portal, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def named(answer: httpx.Response) -> tuple[int, list[str]]:
        return answer.status_code, answer.headers.get_list("Hookgate-Contract")

    tag = heads.etag(world.agent, "chat")
    headers = {"Authorization": f"Bearer {world.key}", "If-None-Match": tag}
    assert named(httpx.get(portal.url + REGISTRY, headers=headers)) == (304, ["3"])
    large = httpx.post(f"{portal.url}/api/v1/confirmations", content=b" " * (1024 * 1024 + 1))
    assert named(large) == (413, ["3"])
    assert named(httpx.get(portal.url + REGISTRY, headers={"Host": "evil.test"})) == (400, ["3"])
    assert named(portal.get(REGISTRY, "hg_nobody")) == (401, ["3"])
    with portal.events("/api/v1/agents/procurement/events", world.key) as events:
        assert named(events.response) == (200, ["3"])

    def away(poll: Any) -> Any:
        raise OperationalError("database is locked")

    monkeypatch.setattr(polls, "confirm", away)
    assert named(httpx.get(portal.url + REGISTRY, headers=headers)) == (503, ["3"])


def test_pages_of_people_have_none(portal: Portal) -> None:
    for path in ("/healthz", "/login/", "/api/v2/x", "/api/v10/agents"):
        assert "Hookgate-Contract" not in portal.get(path).headers


@pytest.mark.parametrize("started", [False, True])
def test_an_application_that_fails_is_answered_for(started: bool) -> None:
    async def failing(scope: Any, receive: Any, send: Any) -> None:
        if started:
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"Hookgate-Contract", b"1")]}
            )
        raise RuntimeError("a secret")

    async def run() -> list[Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "path": "/api/v1/calls"}
        with pytest.raises(RuntimeError) if started else contextlib.nullcontext():
            await NamedContract(failing)(scope, lambda: None, send)  # type: ignore[arg-type,return-value]
        return sent

    head, *rest = asyncio.run(run())
    assert [value for name, value in head["headers"] if name.lower() == b"hookgate-contract"] == [b"3"]
    assert head["status"] == (200 if started else 500)
    assert b"a secret" not in b"".join(part["body"] for part in rest)
