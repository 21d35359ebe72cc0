"""Planned failures, the clock, the records, and discovery."""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.sandbox.conftest import APP_ID, CHAT, card


def messages(server) -> int:
    return len(server.look("messages")["messages"])


def test_a_planned_status(api, server):
    server.control(
        "failures", endpoint="send", status=503, headers={"Retry-After": "3"}, body={"code": 1}, count=2
    )
    first, second, third = (api.send(card()) for _ in range(3))
    assert (first.status_code, first.headers["retry-after"], first.json()) == (503, "3", {"code": 1})
    assert (second.status_code, third.status_code) == (503, 200)
    assert messages(server) == 1


def test_a_planned_429_notices_who_does_not_wait(api, server, now):
    server.control("failures", endpoint="send", status=429)
    refused = api.send(card())
    assert (refused.status_code, refused.json()["code"]) == (429, 99991400)
    assert refused.headers["x-ogw-ratelimit-reset"] == "2"
    now.now += 1.9
    api.send(card())
    assert server.look("counters")["early"] == 1
    now.now += 0.1
    api.send(card())
    assert server.look("counters")["early"] == 1
    assert [call["early"] for call in server.look("calls", endpoint="send")["calls"]] == [False, True, False]


def test_a_body_that_is_no_json(api, server):
    server.control("failures", endpoint="send", status=502, body="<html>bad gateway</html>")
    assert api.send(card()).text == "<html>bad gateway</html>"


def test_dropping_the_connection(api, server):
    server.control("failures", endpoint="send", drop_connection=True)
    with pytest.raises(httpx.RemoteProtocolError):
        api.send(card())
    assert messages(server) == 0


def test_applying_and_then_dropping(api, server):
    server.control("failures", endpoint="send", apply_then_drop=True)
    with pytest.raises(httpx.RemoteProtocolError):
        api.send(card(), uuid="d-1")
    assert messages(server) == 1
    assert (
        api.send(card(), uuid="d-1").json()["data"]["message_id"]
        == server.look("messages")["messages"][0]["message_id"]
    )
    assert messages(server) == 1
    assert [call["status"] for call in server.look("calls", endpoint="send")["calls"]] == [None, 200]


def test_a_delay(api, server):
    server.control("failures", endpoint="token", delay_ms=150)
    started = time.monotonic()
    assert api.token()["code"] == 0
    assert time.monotonic() - started >= 0.15


def test_an_answer_that_comes_late_comes_after_the_call_was_carried_out(api, server):
    server.control("failures", endpoint="send", late_ms=400)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(lambda: api.send(card(), uuid="d-2").json()["code"])
        deadline = time.monotonic() + 5
        while messages(server) == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not sent.done()
        assert sent.result() == 0


def test_failures_hit_only_their_endpoint(api, server):
    server.control("failures", endpoint="update", status=500)
    assert api.send(card()).status_code == 200
    assert [plan["endpoint"] for plan in server.look("failures")["failures"]] == ["update"]
    server.control("failures/clear")
    assert server.look("failures") == {"failures": []}
    server.control("failures", endpoint="*", status=500)
    assert api.send(card()).status_code == 500


@pytest.mark.parametrize(
    ("order", "named"),
    [
        ({"endpoint": "post", "status": 500}, "endpoint"),
        ({"endpoint": "send"}, "status"),
        ({"endpoint": "send", "status": 99}, "status"),
        ({"endpoint": "send", "status": 500, "count": -1}, "count"),
        ({"endpoint": "send", "status": 500, "delay": 1}, "delay"),
    ],
)
def test_failures_that_make_no_sense(server, order, named):
    answer = httpx.post(f"{server.base_url}/sandbox-control/failures", json=order)
    assert (answer.status_code, answer.json()["error"].split(":")[0]) == (400, named)


def test_calls_are_recorded_with_headers_and_body(api, server):
    api.send(card(), uuid="d-1")
    api.call("GET", "/bot/v3/info", headers={"Authorization": "Bearer t-wrong"})
    token, send, info = server.look("calls")["calls"]
    assert (token["endpoint"], token["app_id"]) == ("token", APP_ID)
    assert (send["endpoint"], send["status"], send["code"], send["query"]) == (
        "send",
        200,
        0,
        {"receive_id_type": "chat_id"},
    )
    assert send["headers"]["authorization"] == api.authorization
    assert '"uuid":"d-1"' in send["body"].replace(" ", "")
    assert (info["status"], info["code"], info["app_id"]) == (400, 99991663, "")
    assert server.look("counters")["calls"] == {APP_ID: {"token": 1, "send": 1}, "unknown": {"bot_info": 1}}
    assert [call["endpoint"] for call in server.look("calls", since=str(send["number"]))["calls"]] == [
        "bot_info"
    ]


def test_reset(api, server):
    api.send(card())
    server.control("clock", offset_seconds=100)
    server.control("failures", endpoint="send", status=500)
    server.control("reset")
    assert (messages(server), server.look("calls"), server.look("failures")) == (
        0,
        {"calls": []},
        {"failures": []},
    )
    assert server.look("clock")["offset_seconds"] == 0
    assert api.send(card()).json()["code"] == 99991663
    assert [chat["chat_id"] for chat in server.look("directory")["chats"]] == [CHAT]


def test_the_directory_shows_no_secrets(server):
    text = httpx.get(f"{server.base_url}/sandbox-control/directory").text
    assert "app-secret-1" not in text
    assert "encrypt-key-1" not in text


@pytest.mark.parametrize(
    ("path", "order", "named"),
    [
        ("clock", {"offset_seconds": "1h"}, "offset_seconds"),
        ("apps", {"app_id": "cli_none"}, "app_id"),
        ("apps", {"app_id": APP_ID, "colour": 1}, "colour"),
        ("apps", {"app_id": APP_ID, "scopes": "im:message"}, "scopes"),
        ("users", {"open_id": "ou_bob", "in_range": "no"}, "in_range"),
        ("members", {"chat_id": "oc_none", "open_id": "ou_bob"}, "chat_id"),
        ("messages/recall", {}, "message_id"),
        ("url_verification", {"app_id": "cli_none"}, "app_id"),
    ],
)
def test_control_names_the_field(server, path, order, named):
    answer = httpx.post(f"{server.base_url}/sandbox-control/{path}", json=order)
    assert (answer.status_code, answer.json()["error"].split(":")[0]) == (400, named)


def test_control_wants_json(server):
    answer = httpx.post(f"{server.base_url}/sandbox-control/clock", content=b"offset_seconds=1")
    assert answer.status_code == 400
    assert "JSON" in answer.json()["error"]


def test_bot_info(api):
    answer = api.call("GET", "/bot/v3/info").json()
    assert (answer["code"], answer["bot"]["activate_status"], answer["bot"]["app_name"]) == (
        0,
        2,
        "Approvals",
    )
    assert answer["bot"]["open_id"].startswith("ou_")
    assert "data" not in answer


def test_chats_come_in_pages(api, sandbox):
    for number in range(4):
        sandbox.add_chat(f"oc_more_{number}", f"More {number}", bots=[APP_ID])
    sandbox.add_chat("oc_without_bot", "Elsewhere")
    api.sent(card(), to="ou_bob", kind="open_id")  # a chat with one person is not a group
    seen, token, pages = [], "", 0
    while True:
        query = {"page_size": 2, **({"page_token": token} if token else {})}
        data = api.call("GET", "/im/v1/chats", params=query).json()["data"]
        seen += [item["chat_id"] for item in data["items"]]
        pages += 1
        token = data["page_token"]
        assert data["has_more"] == bool(token)
        if not token:
            break
    assert pages == 3
    assert seen == [CHAT, "oc_more_0", "oc_more_1", "oc_more_2", "oc_more_3"]


@pytest.mark.parametrize(
    "query", [{"page_size": 0}, {"page_size": 101}, {"page_size": "x"}, {"page_token": "x"}]
)
def test_bad_pages(api, query):
    answer = api.call("GET", "/im/v1/chats", params=query)
    assert (answer.status_code, answer.json()["code"]) == (400, 232001)


def test_a_last_page_that_is_full_says_that_it_is_the_last(api, sandbox):
    sandbox.add_chat("oc_more", "More", bots=[APP_ID])
    data = api.call("GET", "/im/v1/chats", params={"page_size": 2}).json()["data"]
    assert (len(data["items"]), data["has_more"], data["page_token"]) == (2, False, "")


def test_one_chat(api, sandbox):
    sandbox.add_chat("oc_without_bot", "Elsewhere")
    data = api.call("GET", f"/im/v1/chats/{CHAT}").json()["data"]
    assert (data["name"], data["chat_mode"], data["chat_status"]) == ("Finance approvals", "group", "normal")
    assert api.call("GET", "/im/v1/chats/oc_none").json()["code"] == 232006
    assert api.call("GET", "/im/v1/chats/oc_without_bot").json()["code"] == 232011


def test_ids_by_email(api, server):
    path = "/contact/v3/users/batch_get_id?user_id_type=open_id"
    server.control("users", open_id="ou_alice", is_resigned=True)
    order = {"emails": ["bob@acme.test", "nobody@acme.test", "alice@acme.test"], "include_resigned": False}
    rows = api.call("POST", path, json=order).json()["data"]["user_list"]
    assert (rows[0]["user_id"], rows[0]["email"]) == ("ou_bob", "bob@acme.test")
    assert rows[0]["status"]["is_activated"] is True
    assert rows[1:] == [{"email": "nobody@acme.test"}, {"email": "alice@acme.test"}]
    order["include_resigned"] = True
    rows = api.call("POST", path, json=order).json()["data"]["user_list"]
    assert rows[2]["status"]["is_resigned"] is True
    assert api.call("POST", path, json={"emails": ["x"] * 51}).json()["code"] == 40001
    assert api.call("POST", path, json={}).json()["code"] == 40001


def test_a_user_shows_what_the_scopes_allow(api, server):
    path = "/contact/v3/users/ou_bob?user_id_type=open_id"
    user = api.call("GET", path).json()["data"]["user"]
    assert (user["name"], user["email"], user["union_id"], user["user_id"]) == (
        "Bob",
        "bob@acme.test",
        "on_bob",
        "bob",
    )
    server.control("apps", app_id=APP_ID, scopes=["contact:contact.base:readonly"])
    assert api.call("GET", path).json()["data"]["user"] == {"open_id": "ou_bob", "union_id": "on_bob"}
    assert api.call("GET", "/contact/v3/users/ou_none").json()["code"] == 99992351
    server.control("apps", app_id=APP_ID, scopes=[])
    assert api.call("GET", path).json()["code"] == 99991672
