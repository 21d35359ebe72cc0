"""Section 5: the ways to embed the runtime: without asyncio, surfaces, delegates, events and leaving."""

import asyncio
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from hookgate import Runtime, SyncRuntime
from hookgate.session.delegation import DelegationRefused

from examples.portal_process import ROOT
from tests.contract.conftest import World
from tests.contract.outside import STRANGER
from tests.contract.playing import Scene, Tool, eventually, play


def test_without_asyncio_calls_wait_for_people_and_delegates_have_sessions(hooked: World) -> None:
    told: list[str] = []
    threads: list[int] = []

    def decide(event: dict[str, Any]) -> None:
        told.append(event["type"])
        if event["type"] == "awaiting_confirmation":
            hooked["bob"].respond(event, "approve")

    def pay(args: dict[str, Any]) -> str:
        threads.append(threading.get_ident())
        return f"paid {args['n']}"

    with (
        SyncRuntime(hooked.portal.url, hooked.issued["hooked"]) as runtime,
        runtime.session("self", user=STRANGER, on_event=decide) as session,
    ):
        assert session.cancel("nothing") is False
        outcome = session.call_tool("oa__pay", {"n": 3}, execute=pay)
        assert (outcome.result, threads) == ("paid 3", [threading.get_ident()])
        assert session.emit("PreCompact").allow is True
        with session.delegate("whole") as child:
            assert "whole" in child.context
            assert child.call_tool("oa__read", {"n": 4}, execute=pay).result == "paid 4"
    assert told == ["awaiting_confirmation", "confirmation_resolved"]


def test_the_environment_may_name_a_file_with_the_key(
    hooked: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_text(hooked.issued["hooked"] + "\n")
    monkeypatch.setenv("HOOKGATE_URL", hooked.portal.url)
    monkeypatch.delenv("HOOKGATE_KEY", raising=False)
    with pytest.raises(LookupError, match="HOOKGATE_KEY"):
        Runtime.from_env()
    monkeypatch.setenv("HOOKGATE_KEY_FILE", str(file))
    with SyncRuntime.from_env() as runtime, runtime.session("self") as session:
        assert session.call_tool("anything", {}, execute=lambda args: "ok").result == "ok"


@pytest.mark.parametrize("surface", ["chat", "api", "dag", "subagent", "workflow"])
def test_each_surface_has_its_registry_and_is_on_record(hooked: World, surface: str) -> None:
    conversation = uuid.uuid4().hex

    async def scene() -> None:
        async with (
            Scene(hooked, key="hooked") as at,
            at.session("self", surface=surface, conversation_id=conversation) as session,
        ):
            assert (await session.call_tool("anything", {}, execute=Tool())).status == "succeeded"

    play(scene())
    rows = hooked["alice"].get("/calls", agent="self").json()["results"]
    assert next(row for row in rows if row["conversation_id"] == conversation)["surface"] == surface


def test_a_node_of_a_plan_is_a_delegate_on_its_own_surface(hooked: World) -> None:
    async def scene() -> tuple[Any, ...]:
        async with (
            Scene(hooked, key="hooked") as at,
            at.session("self", user=STRANGER, conversation_id="c-plan") as session,
            session.delegate("whole", surface="workflow") as node,
        ):
            return node.surface, node.conversation_id, node.user_id, node.id != session.id

    assert play(scene()) == ("workflow", "c-plan", "u1", True)


def test_delegates_are_at_most_five_deep_and_only_those_that_the_agent_names(hooked: World) -> None:
    async def descend(session: Any, depth: int = 0) -> tuple[int, str]:
        try:
            async with session.delegate("self") as child:
                return await descend(child, depth + 1)
        except DelegationRefused as error:
            return depth, str(error)

    async def scene() -> tuple[Any, str]:
        async with Scene(hooked, key="hooked") as at, at.session("self") as session:
            deepest = await descend(session)
            with pytest.raises(DelegationRefused, match="may not delegate") as stranger:
                async with session.delegate("counted"):
                    pass
            return deepest, str(stranger.value)

    (depth, reason), stranger = play(scene())
    assert (depth, "5" in reason, "counted" in stranger) == (5, True, True)


def test_a_delegate_without_a_registry_does_not_run(hooked: World) -> None:
    text = """
apiVersion: hookgate/v1
organizations:
  - slug: hooked
    freshness: {{revalidate_after_seconds: 1, max_stale_seconds: 15}}
    agents:
      - {{slug: asleep, name: Asleep, owner: alice, enabled: {}}}
      - {{slug: caller, name: Caller, owner: alice, may_delegate_to: [asleep]}}
"""
    for enabled in ("true", "false"):
        done = hooked.apply(text.format(enabled))
        assert done.returncode == 0, done.stderr

    async def scene() -> None:
        async with Scene(hooked, key="hooked") as at, at.session("caller") as session:
            with pytest.raises(DelegationRefused, match="asleep"):
                async with session.delegate("asleep"):
                    pass

    play(scene())


def test_a_call_may_be_taken_back_by_its_id(hooked: World) -> None:
    events: list[Any] = []
    tool = Tool()

    async def scene() -> tuple[Any, bool, bool]:
        async with Scene(hooked, key="hooked") as at, at.session("self", on_event=events.append) as session:
            call = asyncio.create_task(session.call_tool("oa__pay", {}, execute=tool, tool_call_id="t"))
            await eventually(lambda: events)
            taken = await session.cancel("t"), await session.cancel("another")
            return await call, *taken

    outcome, taken, another = play(scene())
    assert (taken, another, tool.ran) == (True, False, [])
    assert (outcome.blocked, outcome.blocked_by) == (True, "approval_gate")
    assert "cancelled" in outcome.reason
    assert [event["type"] for event in events] == [
        "awaiting_confirmation",
        "confirmation_resolved",
        "blocked",
    ]
    assert hooked["hooked"].read(events[0])["status"] == "cancelled"
    assert events[-1]["hook"] == "approval_gate"
    assert events[-1]["reason"] == outcome.reason


def test_leaving_the_runtime_detaches_too(hooked: World) -> None:
    events: list[Any] = []

    async def scene() -> Any:
        runtime = Runtime(hooked.portal.url, hooked.issued["hooked"])
        async with runtime:
            session = await runtime.session("self", on_event=events.append).__aenter__()
            call = asyncio.create_task(session.call_tool("oa__pay", {}, execute=Tool()))
            await eventually(lambda: events)
        return await call

    outcome = play(scene())
    assert (outcome.blocked, outcome.status) == (True, "cancelled")
    assert hooked["hooked"].read(events[0])["status"] == "pending"


# As docs/runtime.md has it: detach first of all, then let go, of the program or of the calls that it has begun.
PROGRAM = """
import asyncio, signal, sys
from hookgate import Runtime

async def main():
    async with Runtime.from_env() as runtime:
        hear = lambda event: print(event["id"], flush=True)
        pay = lambda args: print("ran", flush=True)
        async with runtime.session("self", conversation_id=sys.argv[1], on_event=hear) as session:
            call = asyncio.create_task(session.call_tool("oa__pay", {"n": 1}, execute=pay, tool_call_id="t"))
            task = {"program": asyncio.current_task(), "call": call}[sys.argv[2]]
            stop = lambda: (runtime.detach(), task.cancel())
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
            await asyncio.wait({call})

asyncio.run(main())
"""


@pytest.mark.parametrize("cancels", ["program", "call"])
def test_a_process_that_is_told_to_end_leaves_its_request_to_the_next(
    hooked: World, tmp_path: Path, cancels: str
) -> None:
    conversation, tool = uuid.uuid4().hex, Tool("paid")
    environment = {
        **hooked.portal.environment,
        "HOOKGATE_URL": hooked.portal.url,
        "HOOKGATE_KEY": hooked.issued["hooked"],
        "HOOKGATE_SPOOL_DIR": str(tmp_path / "spool"),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, conversation, cancels],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        request = {"id": process.stdout.readline().strip()}
        process.send_signal(signal.SIGTERM)
        assert "ran" not in process.stdout.read()
        process.wait(20)
    assert hooked["hooked"].read(request)["status"] == "pending"
    assert hooked["bob"].respond(request, "approve").status_code == 200

    async def take_over() -> Any:
        async with (
            Scene(hooked, key="hooked") as at,
            at.session("self", conversation_id=conversation) as session,
        ):
            return await session.call_tool("oa__pay", {"n": 1}, execute=tool, tool_call_id="t")

    outcome, again = play(take_over()), play(take_over())
    assert (outcome.result, outcome.confirmation_id) == ("paid", request["id"])
    assert (again.blocked, len(tool.ran)) == (True, 1)
    assert "not run again" in again.observation
