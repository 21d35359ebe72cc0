"""Tokens, scopes and the rate of the API."""

import httpx
import pytest

from tests.sandbox.conftest import APP_ID, CHAT, SECRET, Api, card


def ask(server, body, **options):
    url = f"{server.feishu_url}/open-apis/auth/v3/tenant_access_token/internal"
    return httpx.post(url, json=body, **options).json()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"app_id": APP_ID, "app_secret": "wrong"}, 10015),
        ({"app_id": APP_ID}, 10003),
        ({"app_id": APP_ID, "app_secret": 7}, 10003),
        ({"app_id": "cli_nobody", "app_secret": SECRET}, 20002),
    ],
)
def test_bad_credentials(server, body, code):
    assert ask(server, body)["code"] == code


def test_credentials_must_be_json(server):
    url = f"{server.feishu_url}/open-apis/auth/v3/tenant_access_token/internal"
    assert httpx.post(url, data={"app_id": APP_ID, "app_secret": SECRET}).json()["code"] == 10003


def test_token_stays_until_half_an_hour_before_its_end(api, now):
    first = api.token()
    now.now += 5400
    same = api.token()
    assert (same["tenant_access_token"], same["expire"]) == (first["tenant_access_token"], 1800)
    now.now += 1
    other = api.token()
    assert other["tenant_access_token"] != first["tenant_access_token"]
    assert other["expire"] == 7200
    assert api.call("GET", "/bot/v3/info").json()["code"] == 0  # the old one is still good
    now.now += 1799
    assert api.call("GET", "/bot/v3/info").json()["code"] == 99991663


def test_disabled_app(server, api):
    server.control("apps", app_id=APP_ID, activate_status=1)
    assert api.token()["code"] == 10014


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("", 99991661),
        ("Bearer", 99991661),
        ("Basic abc", 99991661),
        ("Bearer t-nonsense", 99991663),
        ("Bearer x-nonsense", 99991671),
        ("Bearer u-somebody", 99991668),
    ],
)
def test_bad_tokens(api, authorization, code):
    answer = api.call("GET", "/bot/v3/info", headers={"Authorization": authorization})
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_invalidated_tokens_are_refused_and_a_new_one_is_issued(server, api):
    old = api.authorization
    assert server.control("tokens/invalidate") == {"invalidated": 1}
    assert api.call("GET", "/bot/v3/info").json()["code"] == 99991663
    api.authorization = f"Bearer {api.token()['tenant_access_token']}"
    assert api.authorization != old
    assert api.call("GET", "/bot/v3/info").json()["code"] == 0


def test_token_requests_are_counted_per_app(server, api):
    for _ in range(3):
        api.token()
    assert server.look("counters")["token_requests"] == {APP_ID: 4}


def test_missing_scope_is_named(server, api):
    server.control("apps", app_id=APP_ID, scopes=["im:chat:readonly"])
    answer = api.send(card()).json()
    assert answer["code"] == 99991672
    assert [row["subject"] for row in answer["error"]["permission_violations"]] == [
        "im:message",
        "im:message:send_as_bot",
    ]
    assert api.call("GET", "/im/v1/chats").json()["code"] == 0


def test_fifty_calls_a_second(api, now):
    codes = [api.call("GET", f"/im/v1/chats/{CHAT}").json()["code"] for _ in range(50)]
    assert set(codes) == {0}
    refused = api.call("GET", f"/im/v1/chats/{CHAT}")
    assert (refused.status_code, refused.json()["code"]) == (429, 99991400)
    assert refused.headers["x-ogw-ratelimit-limit"] == "50"
    assert int(refused.headers["x-ogw-ratelimit-reset"]) >= 1
    now.now += 1.001
    assert api.call("GET", f"/im/v1/chats/{CHAT}").json()["code"] == 0


def test_a_thousand_calls_a_minute(api, now, sandbox):
    for _ in range(1000):
        sandbox.per_minute.take(f"{APP_ID} bot_info", now())
    answer = api.call("GET", "/bot/v3/info")
    assert (answer.status_code, answer.headers["x-ogw-ratelimit-limit"]) == (429, "1000")


def test_one_app_does_not_use_up_the_rate_of_another(api, now, sandbox, server):
    sandbox.add_app("cli_other", "s2", "k2", "v2", "tenant0001", None)
    other = Api(server, "cli_other", "s2")
    for _ in range(50):
        api.call("GET", "/bot/v3/info")
    assert api.call("GET", "/bot/v3/info").status_code == 429
    assert other.call("GET", "/bot/v3/info").status_code == 200
    other.client.close()


def test_unknown_paths_and_methods(api):
    assert api.call("GET", "/im/v1/messages").status_code == 404
    assert api.call("POST", "/im/v2/messages").status_code == 404
