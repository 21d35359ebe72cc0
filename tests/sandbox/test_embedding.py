"""The sandbox inside another process: mounted, pressed from the same event loop, kept over a restart."""

import contextlib
import json
import socket
import threading

import httpx
import pytest
import uvicorn

from channels_app.sandbox import asgi, samples
from tests.sandbox.conftest import DECIDED, pending, until


@contextlib.contextmanager
def serve(application):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application, log_level="critical", lifespan="on"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    until(lambda: server.started)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    listener.close()


def wrapped(application):
    """Hides the server's own `send`, as a middleware does."""

    async def outer(scope, receive, send):
        async def forward(message):
            await send(message)

        await application(scope, receive, forward)

    return outer


def portal(sandbox, *, strip: bool):
    """One ASGI process that answers callbacks and has the sandbox under /sandbox."""
    mounted = asgi.application(sandbox)

    async def application(scope, receive, send):
        if scope["type"] == "lifespan" or scope["path"].startswith("/sandbox"):
            changes = {"root_path": "/sandbox"}
            if strip and scope["type"] == "http":
                changes = {"path": scope["path"][len("/sandbox") :]}
            await mounted({**scope, **changes}, receive, send)
            return
        await receive()
        body = json.dumps(
            {"toast": {"type": "success", "content": "Approved"}, "card": {"type": "raw", "data": DECIDED}}
        )
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body.encode()})

    return application


def send_card(origin):
    api = f"{origin}/sandbox/feishu/open-apis"
    credentials = {"app_id": samples.APP_ID, "app_secret": samples.APP_SECRET}
    token = httpx.post(f"{api}/auth/v3/tenant_access_token/internal", json=credentials).json()[
        "tenant_access_token"
    ]
    order = {"receive_id": samples.CHAT_ID, "msg_type": "interactive", "content": json.dumps(pending())}
    answer = httpx.post(
        f"{api}/im/v1/messages",
        params={"receive_id_type": "chat_id"},
        json=order,
        headers={"Authorization": f"Bearer {token}"},
    )
    return answer.json()["data"]["message_id"]


@pytest.mark.parametrize("strip", [False, True])
def test_mounted_in_the_process_that_answers(strip):
    sandbox = samples.sample(None)
    with serve(portal(sandbox, strip=strip)) as origin:
        sandbox.directory.app(samples.APP_ID).callback_url = f"{origin}/channels/acme/ops/callback"
        message_id = send_card(origin)
        order = {"message_id": message_id, "open_id": "ou_alice", "button": "Approve"}
        report = httpx.post(f"{origin}/sandbox/sandbox-control/press", json=order, timeout=10).json()
        assert (report["accepted"], report["toast"]["content"], report["card_replaced"]) == (
            True,
            "Approved",
            True,
        )
        page = httpx.get(f"{origin}/sandbox/?as=ou_alice").text
        assert "<h3>Approved</h3>" in page
        assert 'href="static/style.css"' in page
        assert httpx.get(f"{origin}/sandbox/static/style.css").status_code == 200
        if not strip:
            entry = httpx.get(f"{origin}/sandbox")
            assert (entry.status_code, entry.headers["location"]) == (307, "/sandbox/")


def test_the_sample_has_one_app_one_group_and_three_people():
    sandbox = samples.sample("http://127.0.0.1:1/callback")
    rows = sandbox.directory.dump()
    assert [(app["app_id"], app["callback_url"]) for app in rows["apps"]] == [
        (samples.APP_ID, "http://127.0.0.1:1/callback")
    ]
    assert [(chat["name"], chat["members"]) for chat in rows["chats"]] == [
        ("Finance approvals", ["ou_alice", "ou_bob", "ou_charlie"])
    ]
    assert [(user["name"], user["email"]) for user in rows["users"]] == [
        ("Alice", "alice@acme.test"),
        ("Bob", "bob@acme.test"),
        ("Charlie", "charlie@acme.test"),
    ]


def test_a_restart_keeps_the_chat(tmp_path):
    path = tmp_path / "sandbox" / "state.json"
    with serve(portal(samples.sample(None, state_path=path), strip=False)) as origin:
        message_id = send_card(origin)
    assert samples.APP_SECRET not in path.read_text()
    with serve(portal(samples.sample(None, state_path=path), strip=False)) as origin:
        messages = httpx.get(f"{origin}/sandbox/sandbox-control/messages").json()["messages"]
        assert [message["message_id"] for message in messages] == [message_id]
        assert [button["text"] for button in messages[0]["view"]["buttons"]] == ["Approve", "Reject"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"directory": {}, "messages": []}'])
def test_a_broken_state_file_is_no_reason_not_to_start(tmp_path, text):
    path = tmp_path / "state.json"
    path.write_text(text)
    assert samples.sample(None, state_path=path).messages.by_id == {}


def test_a_body_without_end_is_refused():
    with serve(asgi.application(samples.sample(None))) as origin:
        assert httpx.post(f"{origin}/click", content=b"x" * (2 * 1024 * 1024 + 1)).status_code == 413


def test_a_dropped_connection_below_a_middleware():
    sandbox = samples.sample(None)
    sandbox.failures.plan({"endpoint": "token", "drop_connection": True})
    with serve(wrapped(asgi.application(sandbox))) as origin:
        url = f"{origin}/feishu/open-apis/auth/v3/tenant_access_token/internal"
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(url, json={})
        assert httpx.post(url, json={}).json()["code"] == 10003
