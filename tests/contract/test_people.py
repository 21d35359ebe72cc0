"""Section 4: people by portal session, texts that no column can hold, and addresses that aren't there."""

import json
import re
import uuid
from collections.abc import Iterator

import httpx
import pytest

from tests.contract.conftest import SECRETS, World
from tests.contract.outside import Api, paths, refusal


@pytest.fixture(scope="module")
def browser(world: World) -> Iterator[httpx.Client]:
    """Alice, signed in by the login page."""
    with httpx.Client(
        base_url=world.portal.url, trust_env=False, timeout=20, follow_redirects=True
    ) as client:
        page = client.get("/inbox/")
        assert page.status_code == 200
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token, "no form to sign in with"
        form = {"csrfmiddlewaretoken": token[1], "username": "alice", "password": SECRETS["ALICE_PASSWORD"]}
        answer = client.post(page.url, data=form, headers={"Referer": str(page.url)})
        assert answer.status_code == 200, answer.text[:500]
        yield client


def test_a_portal_session_is_a_person(world: World, browser: httpx.Client) -> None:
    created = world["acme"].asked("quiet", "oa__pay")
    path = f"/api/v1/confirmations/{created['id']}"
    assert browser.get(path).json()["id"] == created["id"]
    assert browser.get("/api/v1/calls").status_code == 200
    without = browser.post(
        f"{path}/respond", json={"decision": "approve"}, headers={"Origin": "https://evil.test"}
    )
    assert without.status_code == 403
    assert world["acme"].read(created)["status"] == "pending"
    headers = {"X-CSRFToken": browser.cookies["csrftoken"], "Referer": world.portal.url}
    answer = browser.post(f"{path}/respond", json={"decision": "approve"}, headers=headers)
    assert (answer.status_code, answer.json()["status"]) == (200, "approved")
    assert answer.json()["decisions"][0]["user"] == "alice"


def test_no_state_changes_on_get(world: World, browser: httpx.Client) -> None:
    created = world["acme"].asked("quiet", "oa__pay")
    for path in (f"/inbox/{created['id']}/", f"/api/v1/confirmations/{created['id']}/respond"):
        browser.get(path)
    assert world["acme"].read(created)["status"] == "pending"
    page = browser.get("/inbox/")
    assert created["id"] in page.text


@pytest.mark.parametrize(
    "field", ["conversation_id", "tool_call_id", "tool_name", "hook", "summary", "channel", "agent"]
)
def test_texts_that_no_column_holds_are_400_and_named(acme: Api, field: str) -> None:
    for text in ("a\x00b", "a\ud800b"):
        body = acme.request("procurement", "oa__pay")
        # JSON with escapes, as a client in another language would send it.
        raw = json.dumps({**body, field: text}).encode()
        answer = acme.post_bytes("/confirmations", raw)
        assert answer.status_code in (400, 404) if field == "agent" else answer.status_code == 400, (
            answer.text
        )
        if answer.status_code == 400:
            assert field in " ".join(paths(answer)), answer.text


def test_odd_bodies_are_refused_not_failed(acme: Api) -> None:
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    number = b'{"timeout_seconds": ' + b"9" * 5000 + b"}"
    for path in ("/confirmations", "/calls", "/limits/acquire", "/channels/ops/messages"):
        for raw in (deep, number, b'{"agent": 1e999}', b"[" * 10_000, b'{"a": "\\u0000"}', b"null", b"1"):
            assert acme.post_bytes(path, raw).status_code == 400, (path, raw[:20])


def test_a_decision_with_odd_texts(world: World) -> None:
    created = world["acme"].asked("quiet", "oa__pay")
    path = f"/confirmations/{created['id']}/respond"
    for reason in (b'"a\\u0000"', b'"\\ud800"', b"5", b'"' + b"x" * 100_000 + b'"'):
        answer = world["bob"].post_bytes(path, b'{"decision": "reject", "reason": ' + reason + b"}")
        assert (answer.status_code, paths(answer)) == (400, ["reason"]), answer.text
    assert world["acme"].read(created)["status"] == "pending"


def test_addresses_that_are_not_there(world: World) -> None:
    acme = world["acme"]
    for path in (
        "/nothing",
        "/confirmations/not-a-uuid",
        f"/confirmations/{uuid.uuid4()}",
        "/agents/%00/registry",
    ):
        assert acme.get(path).status_code == 404, path
    assert acme.http.delete("/confirmations").status_code == 405
    assert refusal(acme.get("/agents/no-such/registry/revisions")) == (404, "not_found")


def test_the_sandbox_is_not_served_unless_asked_for(world: World) -> None:
    for path in ("/sandbox/", "/sandbox/sandbox-control/messages"):
        assert httpx.get(f"{world.portal.url}{path}", trust_env=False, timeout=10).status_code == 404


def test_metrics_keep_to_their_token(world: World) -> None:
    url = f"{world.portal.url}/metrics"
    assert httpx.get(url, trust_env=False, timeout=10).status_code == 401
    wrong = httpx.get(url, headers={"Authorization": "Bearer wrong"}, trust_env=False, timeout=10)
    assert wrong.status_code == 401


def test_the_name_of_a_runtime_is_optional_and_bounded(world: World) -> None:
    nameless = Api(world.portal.url, world.issued["acme"], runtime=None)
    assert nameless.get("/agents/quiet/registry").status_code == 200
    assert nameless.asked("quiet", "oa__pay")["status"] == "pending"
    long = nameless.get("/agents/quiet/registry", headers={"Hookgate-Runtime": "x" * 5000})
    assert long.status_code in (200, 400)
