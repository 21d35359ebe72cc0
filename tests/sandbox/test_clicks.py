"""Presses: what is sent, what the client holds back, and which answers it takes."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.sandbox.conftest import (
    APP_ID,
    CHAT,
    DECIDED,
    ENCRYPT_KEY,
    TENANT,
    VERIFICATION_TOKEN,
    card,
    decrypt,
    is_signed,
    pending,
    plain,
    until,
)

TOAST = {"toast": {"type": "success", "content": "Approved", "i18n": {"zh_cn": "已批准"}}}
DECIDED_ANSWER = {**TOAST, "card": {"type": "raw", "data": DECIDED}}


def press(server, message_id, button="Approve", who="ou_bob", **more):
    return server.control("press", message_id=message_id, open_id=who, button=button, **more)


def test_a_press_sends_a_signed_encrypted_event(api, server, peer):
    peer.answer(DECIDED_ANSWER)
    message_id = api.sent(pending())
    report = press(server, message_id)
    assert (report["sent"], report["status"], report["accepted"], report["code"]) == (True, 200, True, 0)
    assert report["toast"] == TOAST["toast"]
    assert json.loads(report["body"]) == DECIDED_ANSWER
    assert 0 <= report["elapsed_ms"] < 600
    (request,) = peer.requests
    assert is_signed(request)
    assert request["headers"]["Content-Type"] == "application/json; charset=utf-8"
    assert request["headers"]["X-Lark-Request-Timestamp"] == "1766000000"
    payload = peer.payload()
    assert payload["schema"] == "2.0"
    assert payload["header"] == {
        "event_id": report["event_id"],
        "token": VERIFICATION_TOKEN,
        "create_time": "1766000000000000",
        "event_type": "card.action.trigger",
        "tenant_key": TENANT,
        "app_id": APP_ID,
    }
    event = payload["event"]
    assert event["operator"] == {
        "tenant_key": TENANT,
        "open_id": "ou_bob",
        "union_id": "on_bob",
        "user_id": "bob",
    }
    assert event["context"] == {"open_message_id": message_id, "open_chat_id": CHAT}
    assert event["action"] == {
        "tag": "button",
        "timezone": "Asia/Shanghai",
        "value": {"r": "req_01", "d": "approve"},
        "name": "approve_1",
    }
    assert event["token"].startswith("c-")
    assert len(event["token"]) == 34


def test_the_answers_card_replaces_the_pressed_one(api, server, peer):
    peer.answer(DECIDED_ANSWER)
    report = press(server, api.sent(pending()))
    assert report["card_replaced"] is True
    view = server.look("messages")["messages"][0]["view"]
    assert (view["title"], view["template"], view["buttons"]) == ("Approved", "green", [])


def test_an_answer_without_card_leaves_it(api, server, peer):
    peer.answer({})
    report = press(server, api.sent(pending()), "approve_1")
    assert (report["accepted"], report["toast"], report["card_replaced"]) == (True, None, False)
    assert server.look("messages")["messages"][0]["version"] == 0


def test_a_form_submit_carries_what_was_typed(api, server, peer):
    message_id = api.sent(pending())
    press(server, message_id, "Reject", form={"reason": "风险太高 <at id=all></at>"})
    action = peer.payload()["event"]["action"]
    assert action["form_value"] == {"reason": "风险太高 <at id=all></at>"}
    assert (action["name"], action["value"]) == ("reject_1", {"r": "req_01", "d": "reject"})
    press(server, message_id, "Reject", form={"reason": "no"}, omit_value=True)
    assert "value" not in peer.payload()["event"]["action"]


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ({"button": "Reject"}, "required"),
        ({"button": "Reject", "form": {"reason": "  "}}, "required"),
        ({"button": "Reject", "form": {"reason": "x" * 501}}, "at most 500"),
        ({"button": "Escalate"}, "no button 'Escalate'"),
        ({"who": "ou_outsider"}, "not in the chat"),
    ],
)
def test_what_the_client_holds_back(api, server, peer, sandbox, order, why):
    sandbox.add_user("ou_outsider", "Outsider", "outsider@acme.test")
    report = press(server, api.sent(pending()), **order)
    assert (report["sent"], report["accepted"]) == (False, False)
    assert why in report["why"]
    assert peer.requests == []


def test_dead_and_disabled_buttons_send_nothing(api, server, peer):
    message_id = api.sent(
        card(
            {"tag": "button", "text": plain("Dead"), "value": {"d": "approve"}},
            {
                "tag": "button",
                "text": plain("Off"),
                "disabled": True,
                "behaviors": [{"type": "callback", "value": {}}],
            },
        )
    )
    assert press(server, message_id, "Dead")["sent"] is False
    assert press(server, message_id, "Off")["sent"] is False
    assert press(server, api.sent(DECIDED), "Approve")["sent"] is False
    server.control("messages/recall", message_id=message_id)
    assert "recalled" in press(server, message_id, "Dead")["why"]
    assert peer.requests == []


def test_a_client_that_has_not_refreshed_presses_what_it_shows(api, server, peer):
    message_id = api.sent(pending())
    api.update(message_id, DECIDED)
    assert press(server, message_id)["sent"] is False
    assert press(server, message_id, version=0)["sent"] is True
    assert peer.payload()["event"]["action"]["value"] == {"r": "req_01", "d": "approve"}


def test_presses_end_after_fourteen_days(api, server, now):
    message_id = api.sent(pending())
    now.now += 14 * 86400 + 1
    assert "14 days" in press(server, message_id)["why"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"value": {}, "status": 201}, 200671),
        ({"value": {}, "status": 302}, 200671),
        ({"value": {}, "status": 500}, 200671),
        ({"value": b"ok"}, 200672),
        ({"value": b""}, 200672),
        ({"value": []}, 200672),
        ({"value": {}, "content_type": "text/html"}, 200672),
        ({"value": {"message": "done"}}, 200672),
        ({"value": {"toast": {"type": "ok", "content": "x"}}}, 200672),
        ({"value": {"toast": {"type": "info"}}}, 200672),
        ({"value": {"toast": "Approved"}}, 200672),
        ({"value": {"card": DECIDED}}, 200673),
        ({"value": {"card": {"type": "template", "data": {}}}}, 200673),
        ({"value": {"card": {"type": "raw", "data": card({"tag": "note"})}}}, 200673),
        (
            {"value": {"card": {"type": "raw", "data": card({"tag": "markdown", "content": "x" * 31000})}}},
            200673,
        ),
        ({"value": {"card": {"type": "raw", "data": {"elements": []}}}}, 200830),
    ],
)
def test_answers_that_are_not_taken(api, server, peer, answer, code):
    peer.answer(answer.pop("value"), **answer)
    report = press(server, api.sent(pending()))
    assert (report["accepted"], report["code"], report["toast"], report["card_replaced"]) == (
        False,
        code,
        None,
        False,
    )
    assert report["why"]
    assert server.look("messages")["messages"][0]["version"] == 0


def test_no_answer_in_time(api, server, peer):
    go = threading.Event()
    peer.reply = lambda request: (go.wait(5) and 200, "application/json", b"{}")
    report = press(server, api.sent(pending()))
    go.set()
    assert (report["accepted"], report["code"], report["status"]) == (False, 200341, None)
    assert report["elapsed_ms"] >= 600


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (None, 200340),
        ("http://127.0.0.1:9/callback", 200342),
        ("http://no-such-host.invalid/callback", 200343),
    ],
)
def test_no_way_to_the_portal(api, server, url, code):
    server.control("apps", app_id=APP_ID, callback_url=url)
    report = press(server, api.sent(pending()))
    assert (report["accepted"], report["code"], report["status"]) == (False, code, None)


def test_no_update_while_a_press_is_unanswered(api, server, peer):
    entered, go = threading.Event(), threading.Event()

    def reply(request):
        entered.set()
        go.wait(5)
        return 200, "application/json", json.dumps(TOAST).encode()

    peer.reply = reply
    message_id = api.sent(pending())
    with ThreadPoolExecutor(1) as pool:
        pressing = pool.submit(press, server, message_id)
        assert entered.wait(5)
        refused = api.update(message_id, DECIDED)
        other = api.update(api.sent(pending()), DECIDED)
        go.set()
        assert pressing.result(5)["accepted"] is True
    assert refused.json()["code"] == 230099
    assert "ErrCode: 11310" in refused.json()["msg"]
    assert "card action is lock" in refused.json()["msg"]
    assert other.json()["code"] == 0
    assert api.update(message_id, DECIDED).json()["code"] == 0


def test_repeating_sends_the_same_bytes(api, server, peer):
    report = press(server, api.sent(pending()), repeat=3)
    assert [answer["accepted"] for answer in report["answers"]] == [True] * 3
    assert len({request["body"] for request in peer.requests}) == 1
    assert len({request["headers"]["X-Lark-Signature"] for request in peer.requests}) == 1


def test_repeating_at_once(api, server, peer):
    together = threading.Barrier(3, timeout=5)
    peer.reply = lambda request: (together.wait() < 3 and 200, "application/json", b"{}")
    report = press(server, api.sent(pending()), repeat=3, together=True)
    assert [answer["status"] for answer in report["answers"]] == [200] * 3


def test_two_presses_are_two_events(api, server, peer):
    message_id = api.sent(pending())
    events = {press(server, message_id, who=who)["event_id"] for who in ("ou_alice", "ou_bob", "ou_bob")}
    assert len(events) == 3


def test_the_retired_flat_shape(api, server, peer):
    message_id = api.sent(pending())
    press(server, message_id, old_shape=True)
    payload = peer.payload()
    assert is_signed(peer.requests[0])
    assert payload["token"].startswith("c-")
    assert {key: payload[key] for key in ("open_id", "open_message_id", "open_chat_id", "tenant_key")} == {
        "open_id": "ou_bob",
        "open_message_id": message_id,
        "open_chat_id": CHAT,
        "tenant_key": TENANT,
    }
    assert payload["action"]["value"] == {"r": "req_01", "d": "approve"}
    assert "header" not in payload
    press(server, message_id, old_shape=True, v1_signature=True)
    assert len(peer.requests[1]["headers"]["X-Lark-Signature"]) == 40


def test_without_encrypt_key_the_body_is_plain_and_unsigned(api, server, peer):
    server.control("apps", app_id=APP_ID, encrypt_key="")
    press(server, api.sent(pending()))
    assert json.loads(peer.requests[0]["body"])["event"]["operator"]["open_id"] == "ou_bob"
    assert not any(name.lower().startswith("x-lark") for name in peer.requests[0]["headers"])


def test_user_id_needs_its_scope(api, server, peer):
    server.control("apps", app_id=APP_ID, scopes=["im:message"])
    press(server, api.sent(pending()))
    assert "user_id" not in peer.payload()["event"]["operator"]


def test_url_check(server, peer):
    peer.reply = lambda request: (
        200,
        "application/json",
        json.dumps({"challenge": peer.payload()["challenge"]}).encode(),
    )
    assert server.control("url_verification", app_id=APP_ID)["ok"] is True
    payload = peer.payload()
    assert (payload["type"], payload["token"]) == ("url_verification", VERIFICATION_TOKEN)
    assert "X-Lark-Signature" not in peer.requests[0]["headers"]
    peer.answer({"challenge": "another"})
    assert server.control("url_verification", app_id=APP_ID)["ok"] is False
    peer.answer({}, status=401)
    report = server.control("url_verification", app_id=APP_ID, token="wrong")
    assert (report["ok"], report["status"]) == (False, 401)
    assert peer.payload()["token"] == "wrong"
    assert json.loads(peer.requests[-1]["body"]).keys() == {"encrypt"}
    assert decrypt(json.loads(peer.requests[-1]["body"])["encrypt"], ENCRYPT_KEY)


@pytest.mark.parametrize(
    ("order", "named"),
    [
        ({"message_id": "om_none", "open_id": "ou_bob", "button": "x"}, "message_id"),
        ({"open_id": "ou_bob", "button": "x"}, "message_id"),
        ({"message_id": "M", "open_id": "ou_nobody", "button": "Approve"}, "open_id"),
        ({"message_id": "M", "open_id": "ou_bob", "button": "Approve", "tamper": "nicely"}, "tamper"),
        ({"message_id": "M", "open_id": "ou_bob", "button": "Approve", "repeat": 0}, "repeat"),
        ({"message_id": "M", "open_id": "ou_bob", "button": "Approve", "form": {"reason": "x"}}, "form"),
        ({"message_id": "M", "open_id": "ou_bob", "button": "Reject", "form": {"why": "x"}}, "form.why"),
        ({"message_id": "M", "open_id": "ou_bob", "button": "Approve", "version": 3}, "version"),
        ({"message_id": "M", "open_id": "ou_bob", "button": "Approve", "colour": 1}, "colour"),
    ],
)
def test_orders_that_make_no_sense_name_the_field(api, server, peer, order, named):
    message_id = api.sent(pending())
    order = {key: message_id if value == "M" else value for key, value in order.items()}
    answer = httpx.post(f"{server.base_url}/sandbox-control/press", json=order)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(named)
    assert peer.requests == []


def test_callbacks_are_listed(api, server, peer):
    press(server, api.sent(pending()))
    (entry,) = server.look("callbacks")["callbacks"]
    assert (entry["kind"], entry["status"], entry["order"]["open_id"]) == ("press", 200, "ou_bob")
    assert entry["request"]["url"] == peer.url


def test_other_requests_are_served_while_a_press_waits(api, server, peer):
    go = threading.Event()
    peer.reply = lambda request: (go.wait(5) and 200, "application/json", b"{}")
    message_id = api.sent(pending())
    with ThreadPoolExecutor(1) as pool:
        pressing = pool.submit(press, server, message_id)
        until(lambda: bool(peer.requests))
        started = time.monotonic()
        assert api.call("GET", "/bot/v3/info").json()["code"] == 0
        assert time.monotonic() - started < 0.4
        go.set()
        pressing.result(5)
