"""Sections 4 and 4.3: the call log, limits, notices, tools, and the calls about the service itself."""

import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.contract.conftest import METRICS_TOKEN, World
from tests.contract.outside import Api, digest, paths, refusal

ENTRY = {
    "session_id": "s1", "conversation_id": "c1", "tool_call_id": "t1", "tool_name": "oa__pay",
    "user": {"id": "u42", "name": "Kim", "email": "kim@acme.test"}, "surface": "chat", "status": "blocked",
    "blocked_by": "readonly_guard", "reason": "read-only", "error": None, "started_at": "2026-11-02T09:30:00.000Z",
    "duration_ms": 12.5, "args": {"amount": 1}, "args_digest": digest({"amount": 1}), "result_bytes": 0,
    "confirmation_id": None, "registry_digest": "sha256:" + "1" * 64,
    "trace": [{"hook": "readonly_guard", "outcome": "deny", "ms": 0.2, "changed": False}], "side_effects": ["x"],
}  # fmt: skip


def entry(**more: Any) -> dict[str, Any]:
    """A whole entry of section 4.3."""
    return {**ENTRY, "id": str(uuid.uuid4()), "agent": "procurement", **more}


def send(api: Api, *entries: dict[str, Any]) -> httpx.Response:
    return api.post("/calls", {"calls": list(entries)})


def test_an_entry_is_read_as_it_was_sent(world: World) -> None:
    sent = entry()
    answer = send(world["acme"], sent)
    assert (answer.status_code, answer.json()) == (202, {"accepted": 1, "duplicates": 0})
    for name in ("carol", "alice"):
        read = world[name].get(f"/calls/{sent['id']}").json()
        assert {field: read[field] for field in sent} == sent
    listed = world["carol"].get("/calls", to="2026-11-02T09:30:01Z").json()
    assert set(listed) == {"results", "next"}
    assert sent["id"] in {row["id"] for row in listed["results"]}


@pytest.mark.parametrize("user", ["u42", {"id": "u42", "name": None, "email": None}, None])
def test_a_user_is_given_back_as_it_came(world: World, user: Any) -> None:
    sent = entry(user=user)
    assert send(world["acme"], sent).status_code == 202
    assert world["carol"].get(f"/calls/{sent['id']}").json()["user"] == user


@pytest.mark.parametrize("status", ["succeeded", "failed", "blocked", "timed_out", "cancelled", "unknown"])
@pytest.mark.parametrize("surface", ["chat", "dag"])
def test_each_status_is_taken(world: World, status: str, surface: str) -> None:
    assert send(world["acme"], entry(status=status, surface=surface)).status_code == 202


def test_the_first_entry_wins_but_for_unknown(world: World) -> None:
    acme, carol = world["acme"], world["carol"]
    sent = entry(status="succeeded")
    send(acme, sent)
    again = send(acme, {**sent, "status": "failed", "reason": "other"})
    assert (again.status_code, again.json()) == (202, {"accepted": 0, "duplicates": 1})
    assert carol.get(f"/calls/{sent['id']}").json()["status"] == "succeeded"
    open_call = entry(status="unknown", reason=None)
    send(acme, open_call)
    final = send(acme, {**open_call, "status": "failed", "error": "no money"})
    assert final.json() == {"accepted": 1, "duplicates": 0}
    read = carol.get(f"/calls/{open_call['id']}").json()
    assert (read["status"], read["error"]) == ("failed", "no money")
    back = send(acme, open_call)
    assert back.json() == {"accepted": 0, "duplicates": 1}
    assert carol.get(f"/calls/{open_call['id']}").json()["status"] == "failed"


def test_one_bad_entry_stores_nothing(world: World) -> None:
    good = entry()
    for bad in ({"status": "done"}, {"agent": "no-such"}, {"started_at": "yesterday"}, {"surprise": 1}):
        answer = send(world["acme"], good, {**entry(), **bad})
        assert refusal(answer) == (400, "invalid")
        assert all(path.startswith("calls[1]") for path in paths(answer)), paths(answer)
    assert world["carol"].get(f"/calls/{good['id']}").status_code == 404
    assert paths(send(world["procurement"], good, entry(agent="quiet"))) == ["calls[1].agent"]


def test_a_batch_has_one_to_a_thousand(world: World) -> None:
    assert send(world["acme"]).status_code == 400
    many = [entry(trace=[], side_effects=[], args=None) for _ in range(1001)]
    assert send(world["acme"], *many).status_code == 400
    answer = send(world["acme"], *many[:1000])
    assert (answer.status_code, answer.json()) == (202, {"accepted": 1000, "duplicates": 0})


def test_each_filter(world: World) -> None:
    tool = f"oa__{uuid.uuid4().hex[:8]}"
    base = {"tool_name": tool}
    blocked = entry(**base, started_at="2026-10-01T00:00:00Z")
    plain = entry(
        **base,
        agent="quiet",
        status="succeeded",
        blocked_by=None,
        trace=[],
        user="u7",
        started_at="2026-10-02T00:00:00Z",
    )
    send(world["acme"], blocked, plain)

    def found(**query: str) -> set[str]:
        answer = world["carol"].get("/calls", tool=tool, **query)
        assert answer.status_code == 200, answer.text
        return {row["id"] for row in answer.json()["results"]}

    both = {blocked["id"], plain["id"]}
    assert found() == both
    assert found(agent="quiet") == {plain["id"]}
    assert found(status="blocked") == {blocked["id"]}
    assert found(user="u42") == {blocked["id"]}
    assert found(user="u7") == {plain["id"]}
    assert found(hook="readonly_guard") == {blocked["id"]}
    assert found(from_="2026-10-02T00:00:00Z") == {plain["id"]}
    assert found(to="2026-10-01T12:00:00Z") == {blocked["id"]}
    assert found(from_="2026-09-01T00:00:00Z", to="2026-11-01T00:00:00Z") == both
    assert found(status="failed") == set()
    page = world["carol"].get("/calls", tool=tool, limit="1").json()
    assert [row["id"] for row in page["results"]] == [plain["id"]]
    rest = world["carol"].get("/calls", tool=tool, limit="1", cursor=page["next"]).json()
    assert ([row["id"] for row in rest["results"]], rest["next"]) == ([blocked["id"]], None)


def test_auditors_and_admins_read_the_log(world: World) -> None:
    sent = entry()
    send(world["acme"], sent)
    for name in ("bob", "dave", "acme"):
        assert world[name].get("/calls").status_code == 403, name
        assert world[name].get(f"/calls/{sent['id']}").status_code == 403, name
    assert world["sam"].get(f"/calls/{sent['id']}").status_code == 404
    assert sent["id"] not in world["sam"].get("/calls").text


def acquire(world: World, *, connector: str = "oa", user: str | None = "u1", call: str | None = None) -> Any:
    hooks = world["acme"].get("/agents/limited/registry").json()["hooks"]
    hook = next(h["id"] for h in hooks if h["name"] == "connector_rate_limit")
    body = {"agent": "limited", "hook": hook, "connector": connector, "user": user}
    answer = world["acme"].post("/limits/acquire", {**body, "call": call or str(uuid.uuid4())})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_limit_is_the_declarations(world: World) -> None:
    user = uuid.uuid4().hex
    first = acquire(world, user=user)
    assert set(first) == {"allowed", "limit", "remaining", "retry_after_seconds"}
    assert (first["allowed"], first["limit"], first["remaining"]) == (True, 2, 1)
    call = str(uuid.uuid4())
    second = acquire(world, user=user, call=call)
    assert (second["allowed"], second["remaining"]) == (True, 0)
    third = acquire(world, user=user)
    assert (third["allowed"], third["remaining"]) == (False, 0)
    assert 0 < third["retry_after_seconds"] <= 600
    # A repeated call counts once, also when it was the last one that went through.
    assert acquire(world, user=user, call=call)["allowed"] is True
    # Another user, another connector: another window.
    assert acquire(world, user=uuid.uuid4().hex)["allowed"] is True
    assert acquire(world, user=user, connector="mail")["allowed"] is True
    assert acquire(world, user=None)["limit"] == 2


def test_a_repeated_call_counts_once_however_often_it_comes(world: World) -> None:
    user, call = uuid.uuid4().hex, str(uuid.uuid4())
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: acquire(world, user=user, call=call), range(12)))
    assert answers == [answers[0]] * 12
    assert (answers[0]["allowed"], answers[0]["remaining"]) == (True, 1)
    assert acquire(world, user=user)["allowed"] is True
    assert acquire(world, user=user)["allowed"] is False


def test_a_limit_needs_the_id_of_such_a_hook(world: World) -> None:
    body = {"agent": "limited", "connector": "oa", "user": "u", "call": str(uuid.uuid4())}
    answer = world["acme"].post("/limits/acquire", {**body, "hook": str(uuid.uuid4())})
    assert (answer.status_code, paths(answer)) == (400, ["hook"])
    assert world["solo"].post("/limits/acquire", {**body, "hook": str(uuid.uuid4())}).status_code == 404


def test_a_notice_reaches_the_chat(world: World) -> None:
    text = f"notice {uuid.uuid4().hex}"
    answer = world["acme"].post("/channels/ops/messages", {"text": text, "agent": "procurement"})
    assert answer.status_code == 202
    world.card(text)
    unknown = world["acme"].post("/channels/no-such/messages", {"text": "x", "agent": "procurement"})
    assert unknown.status_code == 404
    assert (
        world["acme"].post("/channels/only/messages", {"text": "x", "agent": "procurement"}).status_code
        == 404
    )
    for body in ({"text": "", "agent": "procurement"}, {"agent": "procurement"}, {"text": "x"}):
        assert world["acme"].post("/channels/ops/messages", body).status_code == 400


def test_thirty_notices_a_minute(world: World) -> None:
    body = {"text": "again", "agent": "listed"}
    answers = [world["acme"].post("/channels/spare/messages", body) for _ in range(31)]
    assert [answer.status_code for answer in answers[:30]] == [202] * 30
    assert answers[30].status_code == 429
    assert 1 <= int(answers[30].headers["retry-after"]) <= 60


def test_a_runtime_reports_its_tools(world: World) -> None:
    tools = [{"name": "oa__pay", "description": "Pay", "input_schema": {"type": "object"}}]
    answer = world["acme"].put("/agents/quiet/tools", {"tools": tools})
    assert (answer.status_code, answer.content) == (204, b"")
    assert world["acme"].put("/agents/quiet/tools", {"tools": []}).status_code == 204
    assert world["acme"].put("/agents/quiet/tools", {"tools": [{"description": "x"}]}).status_code == 400


def test_the_service_says_how_it_is(world: World) -> None:
    client = httpx.Client(base_url=world.portal.url, trust_env=False, timeout=10)
    assert client.get("/healthz").status_code == 200
    ready = client.get("/readyz")
    assert ready.status_code == 200, ready.text
    for word in ("database", "broker", "deliver"):
        assert word in ready.text
    assert re.search(r"wake.?ups", ready.text)
    metrics = client.get("/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
    assert metrics.status_code == 200
    assert metrics.headers["content-type"].startswith("text/plain")
    assert re.search(r"^# TYPE \w+ (counter|gauge|histogram)$", metrics.text, re.MULTILINE)
    client.close()


def test_the_api_describes_itself(world: World) -> None:
    client = httpx.Client(base_url=f"{world.portal.url}/api/v1", trust_env=False, timeout=10)
    schema = client.get("/schema/", headers={"Accept": "application/json"})
    assert schema.status_code == 200
    document = schema.json()
    assert document["openapi"].startswith("3.1")
    known = {re.sub(r"\{\w+\}", "{}", path.removeprefix("/api/v1")) for path in document["paths"]}
    for path in (
        "/agents/{}/registry", "/agents/{}/registry/revisions", "/agents/{}/registry/revisions/{}",
        "/agents/{}/events", "/agents/{}/tools", "/confirmations", "/confirmations/{}", "/confirmations/{}/respond",
        "/confirmations/{}/consume", "/confirmations/{}/outcome", "/confirmations/{}/cancel", "/calls", "/calls/{}",
        "/limits/acquire", "/channels/{}/messages",
    ):  # fmt: skip
        assert path in known, path
    docs = client.get("/docs/")
    assert (docs.status_code, docs.headers["content-type"].split(";")[0]) == (200, "text/html")
    client.close()
