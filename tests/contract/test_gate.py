"""Section 5: when the gate fires, and what an approval survives."""

import asyncio
import uuid
from typing import Any

import pytest

from tests.contract.conftest import World
from tests.contract.outside import STRANGER
from tests.contract.playing import Scene, Tool, eventually, play

# agent, tool, arguments, what happens: "runs", "asks", or what blocks it
FIRES = [
    ("procurement", "calculator", {}, "runs"),
    ("procurement", "oa__search", {}, "runs"),
    ("procurement", "oa__write", {}, "runs"),
    ("procurement", "oa__pay", {}, "asks"),
    ("procurement", "shred", {}, "asks"),
    ("procurement", "oa__no_such_action", {}, "asks"),
    ("procurement", "never_heard_of", {}, "asks"),
    ("procurement", "mail__send", {}, "runs"),
    ("procurement", "mail__anything", {}, "asks"),
    ("procurement", "Calculator", {}, "asks"),
    ("strict", "calculator", {}, "asks"),
    ("strict", "oa__search", {}, "asks"),
    ("lenient", "never_heard_of", {}, "runs"),
    ("lenient", "oa__pay", {}, "asks"),
    ("lenient", "oa__no_such_action", {}, "runs"),
    ("listed", "never_heard_of", {}, "unlisted_tools"),
    ("listed", "oa__search", {}, "runs"),
    ("triggered", "oa__write", {"amount": 50000}, "asks"),
    ("triggered", "oa__write", {"amount": 49999}, "runs"),
    # A condition of the gate that fails to evaluate is a match.
    ("triggered", "oa__write", {}, "asks"),
    ("triggered", "oa__write", {"amount": "much"}, "asks"),
    ("triggered", "oa__search", {"amount": 1}, "runs"),
    ("triggered", "free", {"amount": 11}, "asks"),
    ("triggered", "free", {"amount": 10}, "runs"),
    ("triggered", "Case_one", {"amount": 1}, "asks"),
    ("triggered", "case_one", {"amount": 1}, "runs"),
]


async def what_happens(world: World, agent: str, tool_name: str, args: dict[str, Any]) -> str:
    """Whether a call runs, asks, or what blocks it."""
    events: list[Any] = []
    tool = Tool()
    async with Scene(world) as at, at.session(agent, user=STRANGER, on_event=events.append) as session:
        call = asyncio.create_task(session.call_tool(tool_name, args, execute=tool, tool_call_id="t"))
        await eventually(lambda: call.done() or any(e["type"] == "awaiting_confirmation" for e in events))
        if not call.done():
            assert not tool.ran
            assert await session.cancel("t") is True
            assert (await call).blocked
            return "asks"
        outcome = call.result()
        assert bool(tool.ran) is not outcome.blocked
        return "runs" if tool.ran else str(outcome.blocked_by)


@pytest.mark.parametrize(("agent", "tool", "args", "what"), FIRES)
def test_the_gate_fires(world: World, agent: str, tool: str, args: dict[str, Any], what: str) -> None:
    assert play(what_happens(world, agent, tool, args)) == what


def test_cancelling_a_call_cancels_its_request(world: World) -> None:
    events: list[Any] = []

    async def scene() -> None:
        async with Scene(world) as at, at.session("quiet", on_event=events.append) as session:
            call = asyncio.create_task(session.call_tool("oa__pay", {}, execute=Tool()))
            await eventually(lambda: events)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await eventually(lambda: world["acme"].read(events[0])["status"] == "cancelled")

    play(scene())


def test_leaving_detaches_and_the_next_process_takes_over(world: World) -> None:
    events: list[Any] = []
    conversation, tool = uuid.uuid4().hex, Tool("paid")

    async def leave() -> None:
        async with Scene(world) as at:
            async with at.session("quiet", conversation_id=conversation, on_event=events.append) as session:
                call = asyncio.create_task(
                    session.call_tool("oa__pay", {"n": 1}, execute=tool, tool_call_id="t")
                )
                await eventually(lambda: events)
            assert (await call).blocked

    async def take_over() -> Any:
        async with Scene(world) as at, at.session("quiet", conversation_id=conversation) as session:
            return await session.call_tool("oa__pay", {"n": 1}, execute=tool, tool_call_id="t")

    play(leave())
    assert world["acme"].read(events[0])["status"] == "pending"
    assert world["bob"].respond(events[0], "approve").status_code == 200
    outcome = play(take_over())
    assert (outcome.result, outcome.confirmation_id) == ("paid", events[0]["id"])
    assert tool.ran == [{"n": 1}]
    again = play(take_over())
    assert again.blocked
    assert tool.ran == [{"n": 1}]


def test_what_was_consumed_without_an_outcome_never_runs_again(world: World) -> None:
    acme, conversation, tool = world["acme"], uuid.uuid4().hex, Tool()
    created = acme.asked(
        "quiet", "oa__pay", {"n": 1}, conversation_id=conversation, tool_call_id="t", initiator=STRANGER
    )
    world["bob"].respond(created, "approve")
    assert acme.consume(created).status_code == 200

    async def restarted() -> Any:
        async with (
            Scene(world) as at,
            at.session("quiet", conversation_id=conversation, user=STRANGER) as session,
        ):
            return await session.call_tool("oa__pay", {"n": 1}, execute=tool, tool_call_id="t")

    outcome = play(restarted())
    assert (outcome.blocked, outcome.confirmation_id, tool.ran) == (True, created["id"], [])
    assert "not run again" in outcome.observation


def test_without_a_tool_call_id_a_restart_asks_again(world: World) -> None:
    events: list[Any] = []
    conversation = uuid.uuid4().hex

    async def ask() -> None:
        seen = len(events)
        async with Scene(world) as at:
            async with at.session("quiet", conversation_id=conversation, on_event=events.append) as session:
                call = asyncio.create_task(session.call_tool("oa__pay", {}, execute=Tool()))
                await eventually(lambda: len(events) > seen)
            await call

    play(ask())
    play(ask())
    asked = {event["id"] for event in events if event["type"] == "awaiting_confirmation"}
    assert len(asked) == 2


def test_what_lapses_is_blocked(world: World) -> None:
    events: list[Any] = []

    async def scene() -> Any:
        async with Scene(world) as at:
            async with at.session("quiet", conversation_id="c-lapse", on_event=events.append) as session:
                call = asyncio.create_task(
                    session.call_tool("oa__lapsing", {}, execute=Tool(), tool_call_id="t")
                )
                await eventually(lambda: events)
            await call
            await asyncio.to_thread(world["bob"].respond, events[0], "approve")
            await asyncio.sleep(1.2)
            async with at.session("quiet", conversation_id="c-lapse") as session:
                return await session.call_tool("oa__lapsing", {}, execute=Tool(), tool_call_id="t")

    outcome = play(scene())
    assert (outcome.blocked, outcome.blocked_by) == (True, "approval_gate")
    assert "laps" in outcome.reason


def test_the_kill_switch_and_read_only_hold_in_the_runtime(world: World) -> None:
    tool = Tool()
    text = """
apiVersion: hookgate/v1
organizations:
  - {{slug: switches, name: Switches, freshness: {{revalidate_after_seconds: 1, max_stale_seconds: 15}}, read_only: {}}}
"""

    async def scene() -> list[Any]:
        async with Scene(world, key="switches") as at, at.session("switched") as session:

            async def call(name: str) -> Any:
                return await session.call_tool(name, {}, execute=tool)

            outcomes = [await call("write_something")]
            assert (await asyncio.to_thread(world.apply, text.format("true"))).returncode == 0
            await asyncio.sleep(1.1)
            outcomes += [await call("write_something"), await call("calculator")]
            halted = await asyncio.to_thread(
                world.command, "halt", "switches", "--reason", "money is leaking"
            )
            assert halted.returncode == 0
            await asyncio.sleep(1.1)
            outcomes.append(await call("calculator"))
            return outcomes

    try:
        free, guarded, reads, halted = play(scene())
    finally:
        assert world.apply(text.format("false")).returncode == 0
        assert world.command("resume", "switches").returncode == 0
    assert [free.blocked, guarded.blocked, reads.blocked, halted.blocked] == [False, True, False, True]
    assert guarded.blocked_by == "readonly_guard"
    assert "money is leaking" in halted.observation
