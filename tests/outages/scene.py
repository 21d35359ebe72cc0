"""A portal in production on servers of its own, with two web processes, and what people and runtimes do with it."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from hookgate import Outcome, Runtime, canonical
from hookgate.wire.pacing import Pacing

from channels_app.sandbox import samples
from channels_app.sandbox.server import SandboxServer
from examples import demo, sample
from examples.portal_process import PortalProcess, free_port
from tests import services
from tests.e2e.conftest import PRODUCTION
from tests.outages.servers import Postgres, Valkey

# The demo's organization, with time for an outage, and room for many requests at once.
POLICY = "timeout_seconds: 60"
PATIENT = "timeout_seconds: 600, start_by_seconds: 600"
LIMIT = "{name: connector_rate_limit, tool_filter: calculator, params: {max_calls: 100, window_seconds: 60}}"
HOOKS = ("class_hooks: [feishu_gate]", f"class_hooks: [feishu_gate, {LIMIT}]")
ROOM = ("approval_channels: [chat]", "approval_channels: [chat]\n        max_pending: 500")


def until(condition: Callable[[], Any], *, seconds: float, what: str) -> float:
    """Poll until ``condition`` holds; returns how long it took. Fails after ``seconds``."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"{what} did not happen within {seconds} s"
        time.sleep(0.05)
    return time.monotonic() - began


class Scene:
    """The portal, its people's and its runtime's calls. ``other`` is the second web process's origin."""

    def __init__(self, portal: PortalProcess, sandbox: SandboxServer, key: str, token: str) -> None:
        self.portal = portal
        self.sandbox = sandbox
        self.key = key
        self.token = token
        self.other = portal.url
        self.runs: list[dict[str, Any]] = []
        self.ready = 0
        self._pool = ThreadPoolExecutor(256)
        self._amount = 1000
        self.digest = self.get("/agents/procurement/registry").json()["digest"]

    def call(
        self, method: str, path: str, body: Any = None, *, bearer: str = "", url: str = ""
    ) -> httpx.Response:
        """One call of the API, as the runtime unless ``bearer`` says otherwise."""
        headers = {"Authorization": f"Bearer {bearer or self.key}", "Hookgate-Runtime": "test"}
        target = f"{url or self.portal.url}/api/v1{path}"
        return httpx.request(method, target, json=body, headers=headers, timeout=90, trust_env=False)

    def get(self, path: str, **more: Any) -> httpx.Response:
        """GET."""
        return self.call("GET", path, **more)

    def ask(self) -> httpx.Response:
        """``POST /confirmations`` for an amount that no other request has."""
        self._amount += 1
        body = {
            "agent": "procurement",
            "conversation_id": f"c{self._amount}",
            "tool_call_id": "call_01",
            "tool_name": "oa__purchase_pay",
            "tool_args": {"amount": self._amount},
            "hook": "approval_gate",
            "registry_digest": self.digest,
            "initiator": demo.USER,
        }
        return self.call("POST", "/confirmations", body)

    def decide(self, id: str) -> httpx.Response:
        """Bob approves over REST."""
        return self.call("POST", f"/confirmations/{id}/respond", {"decision": "approve"}, bearer=self.token)

    def wait(self, id: str, *, seconds: int = 60) -> "Future[tuple[str, float]]":
        """A long poll at the other web process; its future is the status, and when it was told."""

        def work() -> tuple[str, float]:
            answer = self.get(f"/confirmations/{id}?wait={seconds}", url=self.other)
            return str(answer.json().get("status")), time.monotonic()

        return self._pool.submit(work)

    def together(self, work: Callable[[], Any], times: int) -> list[Any]:
        """The results of doing ``work`` that many times at once."""
        return [future.result(90) for future in [self._pool.submit(work) for _ in range(times)]]

    def run_tool(self, *, impatient: bool = False, when: threading.Event | None = None) -> "Future[Outcome]":
        """Let the agent call a tool that needs approval, in a thread; ``impatient`` gives up after two tries.

        With ``when`` its session is open, and has a registry, before it waits for the event.
        """
        self._amount += 1
        return self._pool.submit(asyncio.run, self._run_tool(self._amount, impatient, when))

    async def _run_tool(self, amount: int, impatient: bool, when: threading.Event | None) -> Outcome:
        pacing = Pacing(retry_delays=(0.1,)) if impatient else None
        async with (
            Runtime(self.portal.url, self.key, name="outage", pacing=pacing) as runtime,
            runtime.session("procurement", user=demo.USER, conversation_id=f"r{amount}") as session,
        ):
            if when is not None:
                await session.emit("UserPromptSubmit", prompt="pay")
                self.ready += 1
                await asyncio.to_thread(when.wait, 90)
            return await session.call_tool("oa__purchase_pay", {"amount": amount}, execute=self.pay)

    def pay(self, args: dict[str, Any]) -> str:
        """The tool."""
        self.runs.append(args)
        return "paid"

    def pending(self) -> list[str]:
        """The ids of the requests that wait for people."""
        return [row["id"] for row in self.get("/confirmations?status=pending").json()["results"]]

    def decide_all(self) -> None:
        """Bob approves whatever is pending."""
        for id in self.pending():
            assert self.decide(id).json()["status"] == "approved"

    def waiting(self) -> int:
        """How many requests wait at the other web process."""
        checks = httpx.get(f"{self.other}/readyz", timeout=20, trust_env=False).json()["checks"]
        return int(checks["wakeups"]["detail"].split()[0])

    def checks(self) -> dict[str, Any]:
        """``/readyz``, which answers whatever is broken; ``/healthz`` says 200 all the while."""
        assert httpx.get(f"{self.portal.url}/healthz", timeout=5, trust_env=False).status_code == 200
        checks: dict[str, Any] = httpx.get(f"{self.portal.url}/readyz", timeout=20, trust_env=False).json()[
            "checks"
        ]
        return checks

    def cards(self, id: str) -> int:
        """How many messages in the chat are about this request."""
        amount = str(self.get(f"/confirmations/{id}").json()["tool_args"]["amount"])
        return sum(f'"amount": {amount}' in str(m["view"]) for m in self.sandbox.look("messages")["messages"])

    def delivery(self, id: str) -> dict[str, Any]:
        """The one delivery of a request."""
        (row,) = self.get(f"/confirmations/{id}").json()["deliveries"]
        return dict(row)

    def consume(self, id: str) -> httpx.Response:
        """Use the approval of a request."""
        return self.consume_row(self.get(f"/confirmations/{id}").json())

    def consume_row(self, row: dict[str, Any]) -> httpx.Response:
        """Use the approval of a request that has been read."""
        body = {"args_digest": canonical.digest(row["tool_args"]), "attempt": row["id"]}
        return self.call("POST", f"/confirmations/{row['id']}/consume", body)


def write_config(folder: Path) -> Path:
    """The demo's config file, patient and roomy."""
    text = demo.FILE.read_text(encoding="utf-8")
    for old, new in ((POLICY, PATIENT), HOOKS, ROOM):
        assert text.count(old) == 1
        text = text.replace(old, new)
    file = folder / "patient.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@contextmanager
def opened(portal: PortalProcess, sandbox: SandboxServer) -> Iterator[Scene]:
    """``portal``, migrated, configured and started."""
    services.migrate(portal)
    portal.manage("apply", str(write_config(portal.folder)), *sample.ENV)
    key = portal.manage("issue_key", "--org", "demo").strip()
    token = portal.manage("issue_token", "--user", "bob", "--scopes", "read,decide").strip()
    sandbox.sandbox.directory.app(samples.APP_ID).callback_url = f"{portal.url}/channels/demo/chat/callback"
    portal.start()
    yield Scene(portal, sandbox, key, token)


@contextmanager
def production(folder: Path, postgres: Postgres, valkey: Valkey) -> Iterator[Scene]:
    """Two web processes, a worker and a scheduler."""
    with SandboxServer(samples.sample(None)) as sandbox:
        environment = {
            "DATABASE_URL": postgres.url,
            "REDIS_URL": valkey.url,
            "HOOKGATE_CHANNEL_HOSTS": sandbox.base_url.removeprefix("http://"),
            **sample.placeholders(sandbox.feishu_url),
        }
        port = free_port()
        second = ("manage.py", "serve", "--port", str(port))
        companions = (*PRODUCTION, second)
        with (
            PortalProcess(folder, environment=environment, companions=companions) as portal,
            opened(portal, sandbox) as scene,
        ):
            scene.other = f"http://127.0.0.1:{port}"
            until(lambda: _lives(scene.other), seconds=30, what="the second web process")
            yield scene


@contextmanager
def embedded(folder: Path) -> Iterator[Scene]:
    """Everything in one process, on SQLite in ``folder``."""
    with SandboxServer(samples.sample(None)) as sandbox:
        environment = {
            "HOOKGATE_CHANNEL_HOSTS": sandbox.base_url.removeprefix("http://"),
            **sample.placeholders(sandbox.feishu_url),
        }
        with PortalProcess(folder, environment=environment) as portal, opened(portal, sandbox) as scene:
            yield scene


def _lives(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
