"""Section 4, what holds for every call: keys, scopes, reach, errors, bounds, lists."""

import json
import re
import uuid
from typing import Any

import httpx
import pytest

from tests.contract.conftest import World
from tests.contract.outside import ABSENT, Api, paths, refusal

RFC3339_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# One call per row of the contract's table: method, path, body, the scope of a runtime key.
CALLS: list[tuple[str, str, Any, str]] = [
    ("GET", "/agents/procurement/registry", None, "registry"),
    ("GET", "/agents/procurement/registry/revisions", None, "registry"),
    ("GET", "/agents/procurement/registry/revisions/1", None, "registry"),
    ("GET", "/agents/procurement/events", None, "registry"),
    ("PUT", "/agents/procurement/tools", {"tools": []}, "tools"),
    ("POST", "/confirmations", {}, "confirmations"),
    ("GET", "/confirmations", None, "confirmations"),
    ("GET", f"/confirmations/{ABSENT}", None, "confirmations"),
    ("POST", f"/confirmations/{ABSENT}/consume", {}, "confirmations"),
    ("POST", f"/confirmations/{ABSENT}/outcome", {}, "confirmations"),
    ("POST", f"/confirmations/{ABSENT}/cancel", None, "confirmations"),
    ("POST", "/calls", {"calls": []}, "calls"),
    ("POST", "/limits/acquire", {}, "limits"),
    ("POST", "/channels/ops/messages", {}, "notify"),
]


def test_the_forms_of_keys_and_tokens(world: World) -> None:
    for name, plain in world.issued.items():
        person = name in {"alice", "bob", "erin", "dave", "kim", "carol", "sam"}
        assert plain.startswith("hgp_" if person else "hg_"), name
        assert "\n" not in plain
        assert len(plain) >= 32
    assert len(set(world.issued.values())) == len(world.issued)


@pytest.mark.parametrize(("method", "path", "body", "scope"), CALLS)
def test_nobody_gets_401(world: World, method: str, path: str, body: object, scope: str) -> None:
    for bearer in (None, "hg_no-such-key", "hgp_no-such-token", world.issued["acme"][:-1]):
        client = Api(world.portal.url, bearer)
        answer = client.http.request(method, path, json=body)
        assert answer.status_code == 401, answer.text
        assert answer.json()["code"] == "unauthenticated"
        assert answer.headers["www-authenticate"].startswith("Bearer")
        client.http.close()


@pytest.mark.parametrize(("method", "path", "body", "scope"), CALLS)
def test_a_key_without_the_scope_gets_403(
    world: World, method: str, path: str, body: object, scope: str
) -> None:
    without = world["registry only" if scope == "notify" else "notify only"]
    answer = without.http.request(method, path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
    assert scope in answer.json()["detail"]


def test_what_is_out_of_reach_is_404(world: World) -> None:
    theirs = world["acme"].asked("procurement", "oa__pay")
    body = {"args_digest": theirs["args_digest"], "attempt": str(uuid.uuid4())}
    other_agent = world["acme"].asked("quiet", "oa__pay")
    strangers = [(world["solo"], theirs), (world["sam"], theirs), (world["procurement"], other_agent)]
    for client, request in strangers:
        path = f"/confirmations/{request['id']}"
        assert refusal(client.get(path)) == (404, "not_found")
        assert request["id"] not in client.get("/confirmations").text
    for client, request in (strangers[0], strangers[2]):
        path = f"/confirmations/{request['id']}"
        assert client.post(f"{path}/consume", body).status_code == 404
        assert client.post(f"{path}/outcome", {"status": "succeeded"}).status_code == 404
        assert client.post(f"{path}/cancel").status_code == 404
    assert world["sam"].respond(theirs, "approve").status_code == 404
    assert world["acme"].read(theirs)["status"] == "pending"


def test_an_agents_key_reaches_its_agent_alone(world: World) -> None:
    own, organizations = world["procurement"], world["acme"]
    assert own.get("/agents/procurement/registry").status_code == 200
    for path in ("registry", "registry/revisions", "registry/revisions/1", "events"):
        assert own.get(f"/agents/quiet/{path}").status_code == 404, path
    assert own.put("/agents/quiet/tools", {"tools": []}).status_code == 404
    digest = organizations.served("quiet")
    assert own.ask("quiet", "oa__pay", registry_digest=digest).status_code == 404
    assert organizations.get("/agents/quiet/registry").status_code == 200
    assert world["solo"].get("/agents/quiet/registry").status_code == 404
    assert organizations.get("/agents/no-such/registry").status_code == 404


def test_an_agent_is_a_slug_or_an_id(world: World) -> None:
    key = world["acme"]
    by_slug = key.get("/agents/procurement/registry")
    agent_id = by_slug.json()["agent"]["id"]
    assert UUID.fullmatch(agent_id)
    assert key.get(f"/agents/{agent_id}/registry").content == by_slug.content
    assert key.get(f"/agents/{agent_id}/registry/revisions").status_code == 200
    assert world["solo"].get(f"/agents/{agent_id}/registry").status_code == 404
    created = key.asked(agent_id, "oa__pay")
    assert created["agent"] == "procurement"
    listed = key.get("/confirmations", agent=agent_id).json()["results"]
    assert created["id"] in {row["id"] for row in listed}


def test_a_session_without_credentials_of_a_person_cannot_write(world: World) -> None:
    created = world["acme"].asked("procurement", "oa__pay")
    assert refusal(world["acme"].respond(created, "approve")) == (403, "people_only")
    assert refusal(world["carol"].respond(created, "approve")) == (403, "scope_missing")


def test_people_may_not_act_as_runtimes(world: World) -> None:
    created = world["acme"].asked("procurement", "oa__pay")
    body = world["acme"].request("procurement", "oa__pay")
    for client in (world["alice"], world["bob"]):
        assert client.post("/confirmations", body).status_code == 403
        assert client.consume(created).status_code == 403
        assert client.post("/calls", {"calls": []}).status_code == 403


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (b"", None),
        (b"{", None),
        (b"[]", None),
        (b'"x"', None),
        (b"\xff\xfe", None),
        (b'{"agent": "procurement", "agent": "quiet"}', None),
    ],
)
def test_a_body_that_is_no_object_of_json_is_400(acme: Api, raw: bytes, where: str | None) -> None:
    for path in ("/confirmations", "/calls", "/limits/acquire"):
        assert acme.post_bytes(path, raw).status_code == 400, path


def test_unknown_missing_and_wrong_fields_are_named(acme: Api) -> None:
    body = acme.request("procurement", "oa__pay")
    answer = acme.post("/confirmations", {**body, "surprise": 1})
    assert refusal(answer) == (400, "invalid")
    assert paths(answer) == ["surprise"]
    answer = acme.post("/confirmations", {k: v for k, v in body.items() if k != "tool_name"})
    assert refusal(answer) == (400, "invalid")
    assert paths(answer) == ["tool_name"]
    answer = acme.post("/confirmations", {**body, "timeout_seconds": "60", "conversation_id": 7})
    assert refusal(answer) == (400, "invalid")
    assert set(paths(answer)) == {"timeout_seconds", "conversation_id"}
    assert acme.post("/confirmations", {**body, "tool_args": [1]}).status_code == 400
    for bad in (0, -1, 259201, 1.5):
        answer = acme.post("/confirmations", {**body, "timeout_seconds": bad})
        assert (answer.status_code, paths(answer)) == (400, ["timeout_seconds"]), bad


def test_bodies_are_bounded(acme: Api) -> None:
    mebibyte = 1024 * 1024
    padding = acme.request("procurement", "oa__pay", summary="x" * (mebibyte + 1))
    assert refusal(acme.post("/confirmations", padding)) == (413, "too_large")
    fits = json.dumps(acme.request("procurement", "oa__pay")).encode()
    fits += b" " * (mebibyte - len(fits))
    assert acme.post_bytes("/confirmations", fits).status_code == 201
    assert refusal(acme.post_bytes("/confirmations", fits + b" ")) == (413, "too_large")
    assert refusal(acme.post_bytes("/limits/acquire", b" " * (mebibyte + 1))) == (413, "too_large")
    calls = b'{"calls": []}'
    assert acme.post_bytes("/calls", calls + b" " * (8 * mebibyte - len(calls))).status_code == 400
    assert refusal(acme.post_bytes("/calls", calls + b" " * (8 * mebibyte))) == (413, "too_large")


def test_a_body_is_bounded_however_it_is_sent(world: World) -> None:
    def chunks():
        yield from (b" " * 65536 for _ in range(20))

    answer = httpx.post(
        f"{world.portal.url}/api/v1/confirmations",
        content=chunks(),
        headers={"Authorization": f"Bearer {world.issued['acme']}", "Content-Type": "application/json"},
        timeout=30,
        trust_env=False,
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_arguments_are_bounded_in_their_canonical_form(acme: Api) -> None:
    bound = 256 * 1024
    around = len('{"text":""}')
    largest = {"text": "x" * (bound - around)}
    assert acme.ask("procurement", "oa__pay", largest).status_code == 201
    too_large = {"text": "x" * (bound - around + 1)}
    assert refusal(acme.ask("procurement", "oa__pay", too_large)) == (413, "too_large")
    # Escapes that the canonical form does not have don't count: é is two bytes there, six in this body.
    short = acme.request("procurement", "oa__pay", {"text": "é" * 100_000})
    raw = json.dumps(short).encode()
    assert len(raw) > 2 * bound
    assert acme.post_bytes("/confirmations", raw).status_code == 201


def test_times_and_ids_have_one_form(acme: Api) -> None:
    created = acme.asked("procurement", "oa__pay")
    assert UUID.fullmatch(created["id"])
    for field in ("created_at", "expires_at"):
        assert RFC3339_UTC.fullmatch(created[field]), created[field]


def test_lists_have_pages_newest_first(acme: Api) -> None:
    made = [acme.asked("ownerless", "oa__pay", {"n": n})["id"] for n in range(3)]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(20):
        page = acme.get("/confirmations", agent="ownerless", limit="1", **cursor).json()
        assert set(page) == {"results", "next"}
        seen += [row["id"] for row in page["results"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == made[::-1]
    assert acme.get("/confirmations", cursor="garbage").status_code == 400
    assert acme.get("/confirmations", status="approved", agent="ownerless").json()["results"] == []
    assert len(acme.get("/confirmations", status="pending", agent="ownerless").json()["results"]) == 3
    assert acme.get("/confirmations", status="done").status_code == 400
    assert acme.get("/confirmations", agent="no-such").status_code == 404
