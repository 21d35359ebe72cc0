"""An unchanged registry is confirmed without the view; whatever is odd about a request reaches it."""

from typing import Any

import httpx
import pytest

from hooks_app.api.registry_views import RegistryView
from hooks_app.governance import halting
from hooks_app.models import RuntimeInstance, RuntimeKey
from hooks_app.registry import heads
from portal import audit
from portal.lib import clock
from tests.machinery.live import Portal

PATH = "/api/v1/agents/procurement/registry"
# The date, and what says how the answer is sent.
OWN = {"date", "content-length", "content-type", "content-language", "allow"}


@pytest.fixture
def viewed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that the view was asked for."""
    seen: list[str] = []
    get = RegistryView.get

    def noted(view: Any, request: Any, agent: str) -> Any:
        seen.append(request.path)
        return get(view, request, agent)

    monkeypatch.setattr(RegistryView, "get", noted)
    return seen


def poll(portal: Portal, key: str, tag: str, query: str = "", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {"Authorization": f"Bearer {key}", "If-None-Match": tag, "Hookgate-Runtime": "worker-1", **named}
    return httpx.get(f"{portal.url}{PATH}{query}", headers=sent, timeout=10)


def test_an_unchanged_registry_is_told_without_the_view(
    portal: Portal, world: Any, viewed: list[str]
) -> None:
    tag = heads.etag(world.agent, "chat")
    by_view = poll(portal, world.key, "*")  # only the view judges this one
    assert (by_view.status_code, by_view.headers["ETag"], viewed) == (304, tag, [PATH])
    for query, held in (("", tag), ("?surface=chat", f'"other", W/{tag}')):
        answer = poll(portal, world.key, held, query)
        assert (answer.status_code, answer.content, viewed) == (304, b"", [PATH])
        expected = {name: value for name, value in by_view.headers.items() if name not in OWN}
        assert {name: value for name, value in answer.headers.items() if name not in OWN} == expected
    assert RuntimeInstance.objects.get().name == "worker-1"


def test_what_is_not_plain_is_the_views(portal: Portal, world: Any, viewed: list[str]) -> None:
    tag = heads.etag(world.agent, "chat")
    assert poll(portal, world.key, '"other"').status_code == 200
    assert poll(portal, world.key, tag, "?surface=eval").json()["code"] == "scope_missing"
    assert poll(portal, world.key, tag, "?surface=moon").json()["code"] == "invalid"
    assert poll(portal, world.key, tag, "?surface=chat&x=1").json()["code"] == "invalid"
    assert poll(portal, world.key, tag, Hookgate_Runtime="x" * 101).json()["code"] == "invalid"
    assert poll(portal, world.their_key, tag).status_code == 200  # beta has a procurement of its own
    assert poll(portal, world.other_key, tag).json()["code"] == "not_found"
    assert len(viewed) == 7
    assert poll(portal, "hg_nobody", tag).json()["code"] == "unauthenticated"
    assert poll(portal, world.key, tag, Host="evil.test").status_code == 400
    assert len(viewed) == 7


def test_a_revoked_key_and_a_halt_hold_at_the_next_poll(
    portal: Portal, world: Any, viewed: list[str]
) -> None:
    tag = heads.etag(world.agent, "chat")
    assert poll(portal, world.key, tag).status_code == 304
    halting.halt(organization=world.acme, reason="audit", actor=audit.SHELL)
    halted = poll(portal, world.key, tag)
    assert (halted.status_code, halted.json()["state"]["halted"]) == (200, True)
    assert poll(portal, world.key, halted.headers["ETag"]).status_code == 304
    assert len(viewed) == 1
    RuntimeKey.objects.update(revoked_at=clock.now())
    refused = poll(portal, world.key, halted.headers["ETag"])
    assert (refused.status_code, refused.headers["Content-Type"]) == (401, "application/problem+json")
