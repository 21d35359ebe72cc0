"""A sandbox on a real port, and a stand-in for the portal that answers its callbacks."""

import base64
import hashlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from channels_app.sandbox.feishu import FeishuSandbox
from channels_app.sandbox.server import SandboxServer

APP_ID = "cli_test0000000001"
SECRET = "app-secret-1"
ENCRYPT_KEY = "encrypt-key-1"
VERIFICATION_TOKEN = "verification-token-1"
TENANT = "tenant0001"
CHAT = "oc_test_finance"
TLS = ssl.create_default_context()  # shared: loading the root certificates takes longer than most tests


class Time:
    """The clock under the sandbox."""

    def __init__(self) -> None:
        self.now = 1_766_000_000.0

    def __call__(self) -> float:
        return self.now


class Peer:
    """Receives callbacks. `reply` decides the answer: status, content type, body."""

    def __init__(self) -> None:
        self.requests: list[dict] = []
        self.reply: Callable[[dict], tuple[int, str, bytes]] = lambda request: (
            200,
            "application/json",
            b"{}",
        )
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = {"headers": dict(self.headers), "body": body, "path": self.path}
                peer.requests.append(request)
                status, content_type, answer = peer.reply(request)
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *args: object) -> None:
                pass  # a client that has hung up is what some tests are about

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/callback"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, value: object, *, status: int = 200, content_type: str = "application/json") -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.reply = lambda request: (status, content_type, body)

    def payload(self, index: int = -1) -> Any:
        """The decrypted content of a received callback."""
        return json.loads(decrypt(json.loads(self.requests[index]["body"])["encrypt"]))

    def close(self) -> None:
        """Ends the server."""
        self.server.shutdown()
        self.server.server_close()


def decrypt(encrypted: str, encrypt_key: str = ENCRYPT_KEY) -> str:
    raw = base64.b64decode(encrypted)
    cipher = Cipher(
        algorithms.AES(hashlib.sha256(encrypt_key.encode()).digest()), modes.CBC(raw[:16])
    ).decryptor()
    unpad = padding.PKCS7(128).unpadder()
    return (unpad.update(cipher.update(raw[16:]) + cipher.finalize()) + unpad.finalize()).decode()


def is_signed(request: dict, encrypt_key: str = ENCRYPT_KEY) -> Any:
    headers = request["headers"]
    text = headers["X-Lark-Request-Timestamp"] + headers["X-Lark-Request-Nonce"] + encrypt_key
    return hashlib.sha256(text.encode() + request["body"]).hexdigest() == headers["X-Lark-Signature"]


class Api:
    """The open API as an app calls it."""

    def __init__(self, server: SandboxServer, app_id: str = APP_ID, secret: str = SECRET) -> None:
        self.client = httpx.Client(base_url=f"{server.feishu_url}/open-apis", timeout=10, verify=TLS)
        self.credentials = {"app_id": app_id, "app_secret": secret}
        self.authorization = f"Bearer {self.token()['tenant_access_token']}"

    def token(self) -> Any:
        return self.client.post("/auth/v3/tenant_access_token/internal", json=self.credentials).json()

    def call(self, method: str, path: str, **options) -> httpx.Response:
        headers = {"Authorization": self.authorization, **options.pop("headers", {})}
        return self.client.request(method, path, headers=headers, **options)

    def send(self, card: object, *, to: str = CHAT, kind: str = "chat_id", **body) -> httpx.Response:
        content = card if isinstance(card, str) else json.dumps(card)
        order = {"receive_id": to, "msg_type": "interactive", "content": content, **body}
        return self.call("POST", f"/im/v1/messages?receive_id_type={kind}", json=order)

    def sent(self, card: object, **options) -> Any:
        """Sends a card that must be taken; its message id."""
        answer = self.send(card, **options)
        assert answer.json()["code"] == 0, answer.text
        return answer.json()["data"]["message_id"]

    def update(self, message_id: str, card: object) -> httpx.Response:
        return self.call("PATCH", f"/im/v1/messages/{message_id}", json={"content": json.dumps(card)})


def plain(content: str) -> dict:
    return {"tag": "plain_text", "content": content}


def card(*elements: dict, title: str = "Approval needed", template: str = "orange") -> dict:
    return {
        "schema": "2.0",
        "config": {"update_multi": True, "summary": {"content": title}},
        "header": {"title": plain(title), "template": template},
        "body": {"elements": list(elements) or [{"tag": "div", "text": plain("Tool: pay")}]},
    }


def pending(**approve) -> dict:
    """The card of the platform's own guidance: approve stands alone, reject sits in a form with a required reason."""
    callback = {"type": "callback", "value": {"r": "req_01", "d": "reject"}}
    return card(
        {"tag": "div", "text": plain("Tool: pay\nAmount: 60000")},
        {
            "tag": "button",
            "name": "approve_1",
            "type": "primary_filled",
            "text": plain("Approve"),
            "behaviors": [{"type": "callback", "value": {"r": "req_01", "d": "approve"}}],
            **approve,
        },
        {
            "tag": "form",
            "name": "reject_form",
            "elements": [
                {
                    "tag": "input",
                    "name": "reason",
                    "required": True,
                    "max_length": 500,
                    "input_type": "multiline_text",
                    "rows": 2,
                    "placeholder": plain("Reason for rejecting"),
                },
                {
                    "tag": "button",
                    "name": "reject_1",
                    "type": "danger_filled",
                    "form_action_type": "submit",
                    "text": plain("Reject"),
                    "behaviors": [callback],
                },
            ],
        },
    )


DECIDED = card({"tag": "div", "text": plain("Approved by Bob")}, title="Approved", template="green")


def until(condition: Callable[[], bool], *, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def now() -> Time:
    return Time()


@pytest.fixture(scope="session")
def running(now: Time) -> Iterator[tuple[SandboxServer, Peer]]:
    """One server for all tests: starting it takes longer than most of them."""
    sandbox = FeishuSandbox(source=now, answer_seconds=0.6, challenge_seconds=0.6)
    peer = Peer()
    with SandboxServer(sandbox) as server:
        yield server, peer
    peer.close()


@pytest.fixture
def peer(running: tuple[SandboxServer, Peer]) -> Peer:
    peer = running[1]
    peer.requests.clear()
    peer.answer({})
    return peer


@pytest.fixture
def server(running: tuple[SandboxServer, Peer], now: Time, peer: Peer) -> SandboxServer:
    """The server with a fresh tenant: one app, one group, three people."""
    server = running[0]
    now.now = 1_766_000_000.0
    sandbox = server.sandbox
    sandbox.reset()
    sandbox.directory.load({"apps": [], "users": [], "chats": []})
    sandbox.add_app(APP_ID, SECRET, ENCRYPT_KEY, VERIFICATION_TOKEN, TENANT, peer.url)
    sandbox.add_chat(CHAT, "Finance approvals", bots=[APP_ID])
    for name in ("Alice", "Bob", "Charlie"):
        sandbox.add_user(f"ou_{name.lower()}", name, f"{name.lower()}@acme.test")
        sandbox.add_member(CHAT, f"ou_{name.lower()}")
    return server


@pytest.fixture
def sandbox(server: SandboxServer) -> FeishuSandbox:
    return server.sandbox


@pytest.fixture
def api(server: SandboxServer) -> Iterator[Api]:
    api = Api(server)
    yield api
    api.client.close()
