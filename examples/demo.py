"""`make demo`: the main job from end to end, without a person.

A real portal process, real HTTP, real signed and encrypted callbacks from the sandbox IM, a throw-away database. One
line per step; the exit code is 0 only if every step held.
"""

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
from hookgate import Outcome, Runtime, canonical

from channels_app.sandbox import samples
from channels_app.sandbox.server import SandboxServer
from examples import sample
from examples.portal_process import CommandFailed, PortalProcess

FILE = Path(__file__).with_name("demo.yaml")
USER = {"id": "u42", "name": "Kim", "email": "kim@demo.test"}
PATIENCE = 20.0


class StepFailed(Exception):
    """A step did not hold; the text says what was seen."""


def expect(condition: bool, seen: object) -> None:
    """Raise :class:`StepFailed` unless ``condition`` holds."""
    if not condition:
        raise StepFailed(str(seen))


class Demo:
    """The stage: a portal, a chat, a runtime, and a tool that counts how often it ran."""

    def __init__(self, portal: PortalProcess, sandbox: SandboxServer, runtime: Runtime, key: str) -> None:
        self.portal = portal
        self.sandbox = sandbox
        self.runtime = runtime
        self.key = key
        self.runs: list[dict[str, Any]] = []

    def pay(self, args: dict[str, Any]) -> str:
        """The tool."""
        self.runs.append(args)
        return f"paid {args['amount']}"

    async def call(
        self,
        args: dict[str, Any],
        *,
        tool: str = "oa__purchase_pay",
        tool_call_id: str | None = None,
        conversation: str | None = None,
        runtime: Runtime | None = None,
    ) -> Outcome:
        """Let the agent call a tool, in a conversation of its own."""
        conversation = conversation or uuid.uuid4().hex
        async with (runtime or self.runtime).session(
            "procurement", user=USER, conversation_id=conversation
        ) as session:
            return await session.call_tool(tool, args, execute=self.pay, tool_call_id=tool_call_id)

    async def card(self, marker: str) -> str:
        """The id of the message whose card shows ``marker`` and can be tapped; waits until it is there."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for message in (await asyncio.to_thread(self.sandbox.look, "messages"))["messages"]:
                if marker in str(message["view"]) and any(b["live"] for b in message["view"]["buttons"]):
                    return str(message["message_id"])
            await asyncio.sleep(0.05)
        raise StepFailed(f"no card shows {marker!r}; the portal's log ends with\n{self.portal.log_tail()}")

    async def tap(self, message_id: str, who: str, button: str, **form: str) -> dict[str, Any]:
        """Press a button as ``who``; returns the sandbox's report."""
        report = await asyncio.to_thread(
            lambda: self.sandbox.control(
                "press", message_id=message_id, open_id=who, button=button, form=form
            )
        )
        expect(report.get("status") == 200, report)
        return report

    def view(self, message_id: str) -> dict[str, Any]:
        """What people see of a message now."""
        messages = self.sandbox.look("messages")["messages"]
        found: dict[str, Any] = next(m["view"] for m in messages if m["message_id"] == message_id)
        return found

    def deciding(self, message_id: str) -> list[str]:
        """The names of the buttons that a tap would send to the portal."""
        return [button["text"] for button in self.view(message_id)["buttons"] if button["callback"]]

    def api(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        """Call the REST API as a runtime."""
        return httpx.request(
            method,
            f"{self.portal.url}/api/v1{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.key}", "Hookgate-Runtime": "demo-by-hand"},
            timeout=10,
            trust_env=False,
        )

    def set_read_only(self, value: bool) -> None:
        """Switch the organization's read-only mode through the config file."""
        text = FILE.read_text().replace("read_only: false", f"read_only: {str(value).lower()}")
        (self.portal.folder / "demo.yaml").write_text(text)
        self.portal.manage("apply", str(self.portal.folder / "demo.yaml"), *sample.ENV)


async def no_approval(demo: Demo) -> None:
    """a call that needs no approval runs at once"""
    outcome = await demo.call({"amount": 1}, tool="calculator")
    expect(outcome.result == "paid 1" and not outcome.blocked, outcome)


async def approved(demo: Demo) -> None:
    """a payment waits, Bob taps Approve in the chat, it runs once"""
    call = asyncio.create_task(demo.call({"amount": 60000, "card_number": "4111-1111"}))
    card = await demo.card("60000")
    expect(not demo.runs, demo.runs)
    expect("4111-1111" not in str(demo.view(card)), "the card shows a redacted field")
    report = await demo.tap(card, "ou_bob", "Approve")
    outcome = await call
    expect(outcome.result == "paid 60000" and len(demo.runs) == 1, outcome)
    expect(report["card_replaced"] and not demo.deciding(card), demo.view(card))


async def rejected(demo: Demo) -> None:
    """Bob taps Reject with a reason, the model is told why, nothing runs"""
    call = asyncio.create_task(demo.call({"amount": 60001}))
    await demo.tap(await demo.card("60001"), "ou_bob", "Reject", reason="wrong supplier")
    outcome = await call
    expect(outcome.blocked and "wrong supplier" in str(outcome.observation) and not demo.runs, outcome)


async def expired(demo: Demo) -> None:
    """nobody taps, the request expires, nothing runs and the card loses its buttons"""
    call = asyncio.create_task(demo.call({"amount": 60002}, tool="oa__badge_print"))
    card = await demo.card("60002")
    outcome = await call
    expect(outcome.blocked and not demo.runs, outcome)
    deadline = time.monotonic() + PATIENCE
    while demo.deciding(card):
        expect(time.monotonic() < deadline, demo.view(card))
        await asyncio.sleep(0.05)


async def changed_arguments(demo: Demo) -> None:
    """arguments that change after the approval do not run, the approved ones do"""
    digest = demo.api("GET", "/agents/procurement/registry").json()["digest"]
    body = {
        "agent": "procurement",
        "conversation_id": uuid.uuid4().hex,
        "tool_call_id": "by-hand",
        "tool_name": "oa__purchase_pay",
        "tool_args": {"amount": 60003},
        "hook": "approval_gate",
        "registry_digest": digest,
        "initiator": USER,
    }
    created = demo.api("POST", "/confirmations", body)
    expect(created.status_code == 201, created.text)
    path = f"/confirmations/{created.json()['id']}"
    await demo.tap(await demo.card("60003"), "ou_bob", "Approve")
    attempt = str(uuid.uuid4())
    other = {"args_digest": canonical.digest({"amount": 99999}), "attempt": attempt}
    refused = demo.api("POST", f"{path}/consume", other)
    expect(refused.status_code == 409 and refused.json()["code"] == "args_mismatch", refused.text)
    consumed = demo.api(
        "POST", f"{path}/consume", {"args_digest": created.json()["args_digest"], "attempt": attempt}
    )
    expect(consumed.status_code == 200, consumed.text)
    expect(demo.api("POST", f"{path}/outcome", {"status": "succeeded"}).status_code == 200, "outcome")


async def read_only(demo: Demo) -> None:
    """read-only mode, switched on while a request waits, holds against the approval"""
    call = asyncio.create_task(demo.call({"amount": 60004}))
    card = await demo.card("60004")
    await asyncio.to_thread(demo.set_read_only, True)
    await demo.tap(card, "ou_bob", "Approve")
    outcome = await call
    await asyncio.to_thread(demo.set_read_only, False)
    expect(outcome.blocked and "read" in str(outcome.reason).lower() and not demo.runs, outcome)


async def restart(demo: Demo) -> None:
    """the portal restarts while a request is pending; the tap afterwards lets it run"""
    call = asyncio.create_task(demo.call({"amount": 60005}))
    card = await demo.card("60005")
    await asyncio.to_thread(demo.portal.stop)
    await asyncio.to_thread(demo.portal.start)
    await demo.tap(card, "ou_bob", "Approve")
    outcome = await call
    expect(outcome.result == "paid 60005" and len(demo.runs) == 1, outcome)


async def two_runtimes(demo: Demo) -> None:
    """two runtimes ask for the same tool call: one card, one run"""
    spool = demo.portal.folder / "spool"
    async with Runtime(demo.portal.url, demo.key, name="demo-2", spool=spool) as second:
        same = {"tool_call_id": "shared", "conversation": uuid.uuid4().hex}
        calls = [
            asyncio.create_task(demo.call({"amount": 60006}, runtime=runtime, **same))
            for runtime in (demo.runtime, second)
        ]
        card = await demo.card("60006")
        await demo.tap(card, "ou_bob", "Approve")
        outcomes = await asyncio.gather(*calls)
    cards = [m for m in demo.sandbox.look("messages")["messages"] if "60006" in str(m["view"])]
    expect(len(cards) == 1 and len(demo.runs) == 1, (len(cards), demo.runs))
    expect(sorted(outcome.blocked for outcome in outcomes) == [False, True], outcomes)


async def not_allowed(demo: Demo) -> None:
    """a tap by somebody who may not decide changes nothing"""
    call = asyncio.create_task(demo.call({"amount": 60007}))
    card = await demo.card("60007")
    report = await demo.tap(card, "ou_charlie", "Approve")
    expect(bool(report["toast"]) and report["toast"]["type"] != "success", report)
    expect(not call.done() and not demo.runs, demo.runs)
    await demo.tap(card, "ou_bob", "Approve")
    expect((await call).result == "paid 60007" and len(demo.runs) == 1, demo.runs)


Step = Callable[[Demo], Awaitable[None]]
STEPS: tuple[Step, ...] = (
    no_approval,
    approved,
    rejected,
    expired,
    changed_arguments,
    read_only,
    restart,
    two_runtimes,
    not_allowed,
)


async def play(demo: Demo) -> int:
    """Run every step and print a line for each; returns how many failed."""
    failures = 0
    for step in STEPS:
        demo.runs.clear()
        started = time.monotonic()
        try:
            await step(demo)
            word = "ok  "
        except Exception as error:  # noqa: BLE001  # whatever a step met is its line of the report
            failures += 1
            word = f"FAIL {type(error).__name__}: {error}\n    "
        print(f"{word} {time.monotonic() - started:6.2f} s  {step.__doc__}", flush=True)
    return failures


async def perform() -> int:
    """Build the stage, play, and tear it down; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="hookgate-demo-") as name:
        chat = samples.sample(None)
        with SandboxServer(chat) as server:
            started = time.monotonic()
            environment = {
                "HOOKGATE_CHANNEL_HOSTS": server.base_url.removeprefix("http://"),
                **sample.placeholders(server.feishu_url),
            }
            with PortalProcess(Path(name), environment=environment) as portal:
                portal.manage("migrate", "--verbosity", "0")
                portal.manage("apply", str(FILE), *sample.ENV)
                key = portal.manage("issue_key", "--org", "demo").strip()
                chat.directory.app(samples.APP_ID).callback_url = f"{portal.url}/channels/demo/chat/callback"
                portal.start()
                print(
                    f"ok   {time.monotonic() - started:6.2f} s  a portal, a chat and an agent are set up",
                    flush=True,
                )
                spool = portal.folder / "spool"
                async with Runtime(portal.url, key, name="demo-1", spool=spool) as runtime:
                    failures = await play(Demo(portal, server, runtime, key))
    print(f"{len(STEPS)} steps, {failures} failed")
    return 1 if failures else 0


def main() -> int:
    """Play until the end or Ctrl-C; either way, and with SIGTERM, the portal is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return asyncio.run(perform())
    except KeyboardInterrupt:
        return 130
    except (CommandFailed, TimeoutError, subprocess.TimeoutExpired) as error:
        print(f"The demo's portal did not start: {error}", file=sys.stderr)
        return 1
