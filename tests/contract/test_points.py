"""Section 5: what every hook point tells its hooks, what they may say, and hook registries by themselves."""

import asyncio
from typing import Any

import pytest
from hookgate import Hook, HookContext, HookEvent, HookRegistry, HookResult, PostToolUseHook, SessionStartHook

from tests.contract import handlers
from tests.contract.conftest import World
from tests.contract.outside import STRANGER
from tests.contract.playing import Scene, Seen, Tool, eventually, play
from tests.contract.test_runtime import METADATA

PREFIXES = ["tests.contract."]
BLOCKING = {"PreToolUse", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact"}
TOOL_POINTS = {"PreToolUse", "PermissionRequest", "PermissionDenied", "PostToolUse", "PostToolUseFailure"}
FIELDS = (
    "event", "tool_name", "tool_args", "tool_result", "error", "agent_id", "user_id", "conversation_id",
    "session_id", "surface", "prompt", "source", "reason", "metadata",
)  # fmt: skip


async def visit_every_point(hooked: World) -> str:
    """A session in which each hook point comes up; its id."""
    events: list[Any] = []
    async with (
        Scene(hooked, key="hooked", python_handlers=PREFIXES) as at,
        at.session("seen", user=STRANGER, conversation_id="c-seen", on_event=events.append) as session,
    ):
        await session.emit("UserPromptSubmit", prompt="pay them")
        await session.call_tool("oa__read", {"n": 1}, execute=Tool({"found": 1}), tool_call_id="t-read")
        await session.call_tool("oa__write", {"n": 2}, execute=Tool(RuntimeError("no money")))
        call = asyncio.create_task(session.call_tool("oa__pay", {"n": 3}, execute=Tool()))
        await eventually(lambda: [e for e in events if e["type"] == "awaiting_confirmation"])
        await asyncio.to_thread(hooked["bob"].respond, events[0], "reject", reason="too much")
        assert (await call).blocked
        async with session.delegate("seen"):
            pass
        for event in ("Stop", "StopFailure", "PreCompact", "PostCompact", "Notification"):
            await session.emit(
                event, source="from here", reason="for this", error="oh" if "Failure" in event else None
            )
        return str(session.id)


@pytest.fixture(scope="module")
def visited(hooked: World) -> tuple[str, list[HookContext]]:
    """The session's id, and every context that its handlers and its delegate's were shown."""
    handlers.seen.clear()
    return play(visit_every_point(hooked)), list(handlers.seen)


def test_every_hook_point_comes_up(visited: tuple[str, list[HookContext]]) -> None:
    assert {str(ctx.event) for ctx in visited[1]} == {str(event) for event in HookEvent}
    assert len(HookEvent) == 15


def test_every_context_has_every_field_and_every_key_of_the_metadata(
    hooked: World, visited: tuple[str, list[HookContext]]
) -> None:
    agent = hooked["alice"].get("/calls", agent="seen", tool="oa__read").json()["results"][0]
    own, contexts = visited
    for ctx in contexts:
        for field in FIELDS:
            getattr(ctx, field)
        assert set(ctx.metadata) >= METADATA, ctx.event
        assert (ctx.user_id, ctx.conversation_id, ctx.metadata["conversation_id"]) == (
            "u1",
            "c-seen",
            "c-seen",
        )
        assert ctx.metadata["org_id"] == "hooked"
        assert ctx.agent_id is not None
        assert ctx.surface == ("chat" if ctx.session_id == own else "subagent")
        assert bool(ctx.tool_name) is (str(ctx.event) in TOOL_POINTS), ctx.event
    assert len({ctx.session_id for ctx in contexts}) == 2
    assert agent["session_id"] == own


def told(visited: tuple[str, list[HookContext]], event: str, tool: str = "") -> HookContext:
    """The one context of this point of the session itself."""
    (found,) = [
        ctx
        for ctx in visited[1]
        if (str(ctx.event), ctx.tool_name, ctx.session_id) == (event, tool, visited[0])
    ]
    return found


def test_what_each_point_of_a_call_tells(visited: tuple[str, list[HookContext]]) -> None:
    before, after = told(visited, "PreToolUse", "oa__read"), told(visited, "PostToolUse", "oa__read")
    assert (before.tool_args, before.tool_result, before.error) == ({"n": 1}, None, None)
    assert (after.tool_args, after.tool_result, after.error) == ({"n": 1}, {"found": 1}, None)
    for ctx in (before, after):
        known = {name: ctx.metadata[name] for name in METADATA - {"org_id", "conversation_id"}}
        assert known == {
            "tool_call_id": "t-read", "connector": "oa", "action": "read", "writes": False,
            "requires_confirmation": False,
        }  # fmt: skip
    failed = told(visited, "PostToolUseFailure", "oa__write")
    assert (failed.tool_args, failed.tool_result) == ({"n": 2}, None)
    assert "no money" in str(failed.error)
    asked, denied = (
        told(visited, "PermissionRequest", "oa__pay"),
        told(visited, "PermissionDenied", "oa__pay"),
    )
    assert (asked.tool_args, denied.tool_args) == ({"n": 3}, {"n": 3})
    assert (asked.metadata["requires_confirmation"], asked.metadata["writes"]) == (True, True)
    assert "too much" in str(denied.reason)


def test_what_the_other_points_tell(visited: tuple[str, list[HookContext]]) -> None:
    assert told(visited, "UserPromptSubmit").prompt == "pay them"
    assert told(visited, "SessionStart").source == "startup"
    assert told(visited, "SessionEnd").reason == "exit"
    for event in ("SubagentStart", "SubagentStop"):
        assert told(visited, event).source == "seen"
    for event in ("Stop", "StopFailure", "PreCompact", "PostCompact", "Notification"):
        ctx = told(visited, event)
        assert (ctx.source, ctx.reason) == ("from here", "for this")
        assert ctx.error == ("oh" if event == "StopFailure" else None)
        assert ctx.metadata["tool_call_id"] is None


class Refusing(Hook):
    """Says no wherever it is asked."""

    name = "refusing"
    points = tuple(HookEvent)

    async def execute(self, ctx: HookContext) -> HookResult:
        return HookResult(allow=False, error="never")


def test_a_no_counts_at_five_points_and_is_ignored_and_traced_at_the_others(hooked: World) -> None:
    async def scene() -> dict[str, Any]:
        async with Scene(hooked, key="hooked") as at, at.session("self") as session:
            session.hooks.register(Refusing())
            return {str(event): await session.emit(event, tool_name="x", tool_args={}) for event in HookEvent}

    results = play(scene())
    assert {event for event, merged in results.items() if not merged.allow} == BLOCKING
    for event, merged in results.items():
        outcomes = [part["outcome"] for part in merged.trace if part["hook"] == "refusing"]
        assert outcomes == ["denied" if event in BLOCKING else "ignored"]
        assert merged.error == ("never" if event in BLOCKING else None)


def test_the_fields_of_a_result_reach_the_outcome(hooked: World) -> None:
    plain = HookResult()
    assert (plain.allow, plain.error, plain.modified_args, plain.modified_result) == (True, None, None, None)
    assert (plain.side_effects, plain.additional_context, plain.system_message, plain.stop) == (
        [],
        None,
        None,
        False,
    )
    full = Seen(name="full")
    full.answer = HookResult(
        modified_args={"n": 2},
        side_effects=["wrote a line"],
        additional_context="mind the gap",
        system_message="to the person",
        stop=True,
    )
    tool = Tool("done")

    async def scene() -> tuple[Any, Any]:
        async with Scene(hooked, key="hooked") as at, at.session("self") as session:
            session.hooks.register(full)
            called = await session.call_tool("anything", {"n": 1}, execute=tool)
            return called, await session.emit("PreToolUse", tool_name="anything", tool_args={"n": 1})

    outcome, merged = play(scene())
    assert tool.ran == [{"n": 2}]
    assert (outcome.side_effects, outcome.system_message, outcome.stop) == (
        ["wrote a line"],
        "to the person",
        True,
    )
    assert "mind the gap" in outcome.observation
    assert next(p for p in outcome.trace if p["hook"] == "full")["changed"] == ["args.n"]
    assert isinstance(merged, HookResult)
    assert (merged.modified_args, merged.additional_context) == ({"n": 2}, "mind the gap")


def test_the_names_that_a_program_imports() -> None:
    from hookgate import (
        HookContext,
        HookRegistry,
        HookResult,
        PostToolUseHook,
        PreToolUseHook,
        Runtime,
        SessionStartHook,
        SyncRuntime,
        ToolBlocked,
    )

    for found in (Runtime, SyncRuntime, HookContext, HookResult, HookRegistry):
        assert found.__module__.startswith("hookgate.")
    assert all(issubclass(base, Hook) for base in (PreToolUseHook, PostToolUseHook, SessionStartHook))
    assert issubclass(ToolBlocked, Exception)


class Quiet(PostToolUseHook):
    """Has everything that a hook has, by default."""

    name = "quiet"

    async def execute(self, ctx: HookContext) -> HookResult:
        return HookResult(modified_result=[ctx.tool_result, self.name])


class Louder(Quiet):
    name = "louder"
    priority = 40


class Hello(SessionStartHook):
    name = "hello"

    async def execute(self, ctx: HookContext) -> HookResult:
        return HookResult(additional_context="hello")


def test_a_registry_in_code_keeps_order_and_runs_each_point() -> None:
    async def scene() -> tuple[Any, ...]:
        registry, guard = HookRegistry(), Seen(priority=1)
        guard.answer = HookResult(modified_args={"n": 2})
        hooks = [Quiet(), Louder(), guard, Hello()]
        for hook in hooks:
            registry.register(hook)
        named = [hook.name for hook in registry.hooks("PostToolUse")]
        before = await registry.run_pre_tool(HookContext("PreToolUse", tool_name="x", tool_args={"n": 1}))
        after = await registry.run_post_tool(HookContext("PostToolUse", tool_name="x", tool_result=1))
        start = await registry.run_session_start(HookContext("SessionStart"))
        taken = registry.unregister("louder"), registry.unregister("louder")
        again = await registry.run("PostToolUse", HookContext("PostToolUse", tool_name="x", tool_result=1))
        return hooks[0], named, before, after, start, taken, again

    quiet, named, before, after, start, taken, again = play(scene())
    assert (quiet.tool_filter, quiet.on_error, quiet.should_trigger(HookContext())) == (None, None, True)
    assert named == ["louder", "quiet"]
    assert before.modified_args == {"n": 2}
    assert after.modified_result == [[1, "louder"], "quiet"]
    assert start.additional_context == "hello"
    assert taken == (True, False)
    assert again.modified_result == [1, "quiet"]
