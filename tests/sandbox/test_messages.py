"""Sending and replacing cards."""

import json

import pytest

from tests.sandbox.conftest import APP_ID, CHAT, DECIDED, Api, card, pending, plain


def code(answer):
    assert answer.status_code == (200 if answer.json()["code"] == 0 else 400)
    return answer.json()["code"]


def test_a_card_arrives_as_people_see_it(api, server):
    answer = api.send(pending(), uuid="d-1")
    data = answer.json()["data"]
    assert data["message_id"].startswith("om_")
    assert (data["chat_id"], data["msg_type"], data["sender"]["id"]) == (CHAT, "interactive", APP_ID)
    assert json.loads(data["body"]["content"]) == pending()
    assert data["create_time"] == "1766000000000"
    assert answer.headers["x-tt-logid"]
    (message,) = server.look("messages")["messages"]
    view = message["view"]
    assert (view["title"], view["template"]) == ("Approval needed", "orange")
    assert view["lines"] == ["Tool: pay", "Amount: 60000"]
    assert [(button["text"], button["live"], button["form"]) for button in view["buttons"]] == [
        ("Approve", True, ""),
        ("Reject", True, "reject_form"),
    ]
    assert [(item["name"], item["required"]) for item in view["inputs"]] == [("reason", True)]


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        ("", {}, 230001),
        ("?receive_id_type=group", {}, 230001),
        ("?receive_id_type=chat_id", {"receive_id": None}, 230001),
        ("?receive_id_type=chat_id", {"receive_id": "ou_alice"}, 230034),
        ("?receive_id_type=chat_id", {"receive_id": "oc_unknown"}, 230002),
        ("?receive_id_type=open_id", {"receive_id": "ou_nobody"}, 99992351),
        ("?receive_id_type=email", {"receive_id": "nobody@acme.test"}, 230034),
        ("?receive_id_type=chat_id", {"msg_type": "post"}, 230001),
        ("?receive_id_type=chat_id", {"content": card()}, 230001),
        ("?receive_id_type=chat_id", {"content": "no JSON"}, 230001),
        ("?receive_id_type=chat_id", {"content": "[1]"}, 230001),
        ("?receive_id_type=chat_id", {"uuid": "x" * 51}, 230001),
        ("?receive_id_type=chat_id", {"uuid": ""}, 230001),
        ("?receive_id_type=chat_id", {"uuid": "x" * 50}, 0),
        ("?receive_id_type=email", {"receive_id": "bob@acme.test"}, 0),
        ("?receive_id_type=union_id", {"receive_id": "on_bob"}, 0),
        ("?receive_id_type=user_id", {"receive_id": "bob"}, 0),
    ],
)
def test_parameters(api, server, query, body, expected):
    order = {"receive_id": CHAT, "msg_type": "interactive", "content": json.dumps(card()), **body}
    assert code(api.call("POST", f"/im/v1/messages{query}", json=order)) == expected
    assert len(server.look("messages")["messages"]) == (expected == 0)


def test_the_body_must_be_declared_as_json(api):
    body = json.dumps({"receive_id": CHAT, "msg_type": "interactive", "content": json.dumps(card())})
    path = "/im/v1/messages?receive_id_type=chat_id"
    assert code(api.call("POST", path, content=body, headers={"Content-Type": "text/plain"})) == 230001
    assert code(api.call("POST", path, content=body, headers={"Content-Type": "application/json"})) == 0


def test_size_counts_utf8_bytes(api):
    def sized(size: int) -> str:
        filled = card({"tag": "div", "text": plain("界" * 9000)})
        text = json.dumps(filled, ensure_ascii=False)
        return text + " " * (size - len(text.encode()))

    assert code(api.send(sized(30 * 1024))) == 0
    assert code(api.send(sized(30 * 1024 + 1))) == 230025


def test_the_same_uuid_within_the_hour_is_the_same_message(api, server, now):
    first = api.sent(card(), uuid="d-1")
    now.now += 3599
    assert api.sent(card(title="again"), uuid="d-1") == first
    assert len(server.look("messages")["messages"]) == 1
    now.now += 1
    assert api.sent(card(), uuid="d-1") != first


def test_a_uuid_belongs_to_one_app(api, server, sandbox):
    sandbox.add_app("cli_other", "s2", "k2", "v2", "tenant0001", None)
    sandbox.set_bot(CHAT, "cli_other", present=True)
    other = Api(server, "cli_other", "s2")
    assert api.sent(card(), uuid="d-1") != other.sent(card(), uuid="d-1")
    other.client.close()


def test_people_who_cannot_be_reached(api, server):
    server.control("users", open_id="ou_bob", in_range=False)
    server.control("users", open_id="ou_alice", is_resigned=True)
    assert code(api.send(card(), to="ou_bob", kind="open_id")) == 230013
    assert code(api.send(card(), to="ou_alice", kind="open_id")) == 230029
    assert code(api.send(card(), to="ou_charlie", kind="open_id")) == 0


def test_a_bot_outside_the_group(api, server):
    server.control("members", chat_id=CHAT, app_id=APP_ID, present=False)
    assert code(api.send(card())) == 230002


def test_five_messages_a_second_to_one_group_from_all_bots(api, server, sandbox, now):
    sandbox.add_app("cli_other", "s2", "k2", "v2", "tenant0001", None)
    sandbox.set_bot(CHAT, "cli_other", present=True)
    other = Api(server, "cli_other", "s2")
    assert [code(sender.send(card())) for sender in (api, other, api, other, api)] == [0] * 5
    assert code(other.send(card())) == 230020
    assert code(api.send(card(), to="ou_bob", kind="open_id")) == 0  # another conversation
    now.now += 1.001
    assert code(other.send(card())) == 0
    other.client.close()


def test_text_messages(api, server):
    content = json.dumps({"text": 'hello <at user_id="ou_bob">Bob</at> **not bold** https://portal.test/x'})
    assert code(api.send(content, msg_type="text")) == 0
    view = server.look("messages")["messages"][0]["view"]
    assert view["lines"] == ["hello @Bob **not bold** https://portal.test/x"]
    assert view["mentions"] == [{"text": "@Bob", "id": "ou_bob"}]
    assert [row["url"] for row in view["links"]] == ["https://portal.test/x"]


def test_replacing_a_card(api, server):
    message_id = api.sent(pending())
    assert api.update(message_id, DECIDED).json() == {"code": 0, "msg": "ok", "data": {}}
    (message,) = server.look("messages")["messages"]
    assert (message["view"]["title"], message["view"]["buttons"], message["version"]) == ("Approved", [], 1)


def test_what_cannot_be_replaced(api, server, sandbox, now):
    message_id = api.sent(pending())
    without = {**DECIDED, "config": {}}
    assert code(api.update(message_id, without)) == 230001
    assert code(api.update("om_unknown", DECIDED)) == 99992354
    assert code(api.update("c-1234", DECIDED)) == 99992354
    old_schema = api.update(message_id, {"config": {"update_multi": True}, "elements": []})
    assert code(old_schema) == 230099
    assert "ErrCode: 200830" in old_schema.json()["msg"]
    undeclared = api.sent({**pending(), "config": {}})
    assert code(api.update(undeclared, DECIDED)) == 230001
    text = api.sent(json.dumps({"text": "hi"}), msg_type="text")
    assert "NOT a card" in api.update(text, DECIDED).json()["msg"]
    object_instead_of_string = api.call("PATCH", f"/im/v1/messages/{message_id}", json={"content": DECIDED})
    assert code(object_instead_of_string) == 230001
    assert server.look("messages")["messages"][0]["version"] == 0


def test_another_apps_card(api, server, sandbox):
    sandbox.add_app("cli_other", "s2", "k2", "v2", "tenant0001", None)
    other = Api(server, "cli_other", "s2")
    assert code(other.update(api.sent(pending()), DECIDED)) == 230027
    other.client.close()


def test_recalled_and_deleted(api, server):
    message_id = api.sent(pending())
    server.control("messages/recall", message_id=message_id)
    assert code(api.update(message_id, DECIDED)) == 230011
    server.control("messages/recall", message_id=message_id, delete=True)
    assert code(api.update(message_id, DECIDED)) == 230110


def test_fourteen_days(api, server, now):
    message_id = api.sent(pending())
    now.now += 14 * 86400
    api.authorization = f"Bearer {api.token()['tenant_access_token']}"
    assert code(api.update(message_id, DECIDED)) == 0
    server.control("clock", offset_seconds=1)
    assert code(api.update(message_id, DECIDED)) == 230031


def test_five_updates_a_second_of_one_message(api, now):
    first, second = api.sent(pending()), api.sent(pending())
    assert [code(api.update(first, DECIDED)) for _ in range(5)] == [0] * 5
    assert code(api.update(first, DECIDED)) == 230020
    assert code(api.update(second, DECIDED)) == 0
    now.now += 1.001
    assert code(api.update(first, DECIDED)) == 0


def test_bot_ability_off(api, server):
    message_id = api.sent(pending())
    server.control("apps", app_id=APP_ID, bot_enabled=False)
    assert code(api.send(card())) == 230006
    assert code(api.update(message_id, DECIDED)) == 230006
