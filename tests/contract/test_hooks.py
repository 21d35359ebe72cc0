"""Section 5: one's own hooks, their order, what they may change, and what they break."""

import asyncio
from typing import Any

import pytest
from hookgate import (
    Hook,
    HookContext,
    HookEvent,
    HookRegistry,
    HookResult,
    PostToolUseHook,
    PreToolUseHook,
    Runtime,
    SessionStartHook,
)

from tests.contract.conftest import World
from tests.contract.outside import STRANGER
from tests.contract.playing import Scene, Seen, Tool, eventually, play


class SeenAfter(PostToolUseHook):
    """Likewise, after the tool."""

    name = "seen_after"

    def __init__(self, answer: HookResult | None = None) -> None:
        self.results: list[Any] = []
        self.answer = answer or HookResult()

    async def execute(self, ctx: HookContext) -> HookResult:
        self.results.append(ctx.tool_result)
        return self.answer


def test_order_rewriting_and_the_end_of_the_chain(world: World) -> None:
    denied: list[Any] = []
    tool = Tool()
    early = Seen(name="early", priority=100)
    late = Seen(name="late", priority=200)
    never = Seen(name="never", priority=300)
    early.answer = HookResult(modified_args={"n": 2}, side_effects=["early: n is 2"])

    class Denied(Hook):
        name = "denied"
        points = (HookEvent.PERMISSION_DENIED,)

        async def execute(self, ctx: HookContext) -> HookResult:
            denied.append(ctx.tool_name)
            return HookResult(allow=False)

    async def scene() -> tuple[Any, Any]:
        async with Scene(world) as at, at.session("procurement") as session:
            for hook in (never, late, early, Denied()):
                session.hooks.register(hook)
            through = await session.call_tool("calculator", {"n": 1}, execute=tool)
            late.answer = HookResult(allow=False, error="not today")
            return through, await session.call_tool("calculator", {"n": 1}, execute=tool)

    through, stopped = play(scene())
    assert tool.ran == [{"n": 2}]
    assert [ctx.tool_args for ctx in late.contexts] == [{"n": 2}] * 2
    assert "early: n is 2" in through.side_effects
    assert (stopped.blocked, stopped.blocked_by, stopped.reason) == (True, "late", "not today")
    assert "late" in stopped.observation
    assert "not today" in stopped.observation
    assert len(never.contexts) == 1
    assert denied == ["calculator"]


def test_after_the_tool(world: World) -> None:
    shorten = SeenAfter(HookResult(allow=False, modified_result="short", additional_context="ask again"))

    async def scene() -> Any:
        async with Scene(world) as at, at.session("procurement") as session:
            session.hooks.register(shorten)
            return await session.call_tool("calculator", {}, execute=Tool("a long result"))

    outcome = play(scene())
    assert (outcome.blocked, outcome.result) == (False, "short")
    assert "ask again" in outcome.observation
    assert "long" not in outcome.observation
    assert shorten.results == ["a long result"]


def test_what_is_approved_is_what_the_chain_made_of_it(world: World) -> None:
    events: list[Any] = []
    tool = Tool()
    rewrite = Seen(name="rewrite")
    rewrite.answer = HookResult(modified_args={"amount": 7})

    async def scene() -> Any:
        async with Scene(world) as at, at.session("quiet", on_event=events.append) as session:
            session.hooks.register(rewrite)
            call = asyncio.create_task(session.call_tool("oa__pay", {"amount": 1}, execute=tool))
            await eventually(lambda: events)
            assert world["acme"].read(events[0])["tool_args"] == {"amount": 7}
            await asyncio.to_thread(world["bob"].respond, events[0], "approve")
            return await call

    assert not play(scene()).blocked
    assert tool.ran == [{"amount": 7}]


def test_the_example_of_the_seed_runs_as_printed(world: World) -> None:
    asked: list[Any] = []

    def org_is_readonly(org_id: Any) -> bool:
        asked.append(org_id)
        return True

    class ReadOnlyGuard(PreToolUseHook):
        name = "readonly_guard"
        priority = 5  # lower runs earlier

        def should_trigger(self, ctx: HookContext) -> bool:
            return ctx.tool_name.startswith("sql_")

        async def execute(self, ctx: HookContext) -> HookResult:
            if org_is_readonly(ctx.metadata["org_id"]):
                return HookResult(
                    allow=False,
                    error="Org is in read-only mode — write blocked.",
                    side_effects=["readonly_guard: blocked sql write"],
                )
            return HookResult()  # default: allow=True, no mutation

    async def scene() -> tuple[Any, Any]:
        async with Scene(world) as at, at.session("lenient") as session:
            session.hooks.register(ReadOnlyGuard())
            blocked = await session.call_tool("sql_write", {}, execute=Tool())
            return blocked, await session.call_tool("other", {}, execute=Tool())

    blocked, other = play(scene())
    assert (blocked.blocked_by, blocked.reason) == (
        "readonly_guard",
        "Org is in read-only mode — write blocked.",
    )
    assert "readonly_guard: blocked sql write" in blocked.side_effects
    assert not other.blocked
    assert len(asked) == 1


def test_the_other_points_through_emit(world: World) -> None:
    class Prompt(Hook):
        name = "prompt"
        points = (HookEvent.USER_PROMPT_SUBMIT, HookEvent.NOTIFICATION)

        async def execute(self, ctx: HookContext) -> HookResult:
            return HookResult(allow=False, error=f"no {ctx.prompt}", additional_context="careful")

    async def scene() -> tuple[Any, Any, Any]:
        async with Scene(world) as at, at.session("lead") as session:
            session.hooks.register(Prompt())
            stop = await session.emit("Stop", reason="done")
            notified = await session.emit("Notification", reason="n")
            return await session.emit("UserPromptSubmit", prompt="secrets"), notified, stop

    asked, notified, stop = play(scene())
    assert (asked.allow, asked.error, asked.additional_context) == (False, "no secrets", "careful")
    assert isinstance(asked, HookResult)
    # Where a no doesn't count it is ignored.
    assert notified.allow is True
    assert stop.allow is True
    world.card("lead stops")


def test_a_registry_of_hooks_by_itself() -> None:
    class Start(SessionStartHook):
        name = "start"

        async def execute(self, ctx: HookContext) -> HookResult:
            return HookResult(additional_context="hello")

    async def scene() -> tuple[Any, ...]:
        registry, guard = HookRegistry(), Seen()
        guard.answer = HookResult(allow=False, error="no")
        registry.register(guard)
        registry.register(Start())
        context = HookContext("PreToolUse", tool_name="x", tool_args={})
        before = await registry.run_pre_tool(context)
        start = await registry.run_session_start(HookContext("SessionStart"))
        after = await registry.run_post_tool(HookContext("PostToolUse", tool_name="x", tool_result=1))
        generic = await registry.run("PreToolUse", context)
        named = [hook.name for hook in registry.hooks("PreToolUse")]
        registry.unregister("seen")
        return before, start, after, generic, named, registry.hooks("PreToolUse")

    before, start, after, generic, named, left = play(scene())
    assert (before.allow, before.error, generic.allow) == (False, "no", False)
    assert start.additional_context == "hello"
    assert (after.allow, named, list(left)) == (True, ["seen"], [])


def test_what_is_only_observed_changes_nothing(world: World) -> None:
    text = """
apiVersion: hookgate/v1
organizations:
  - slug: watch
    name: Watch
    members: [{user: alice, role: admin}]
    connectors: [{slug: oa, actions: [{name: read, writes: false}]}]
    agents:
      - {slug: watched, name: Watched, owner: alice, hooks: {class_hooks: [
          {name: connector_rate_limit, mode: observe, params: {max_calls: 1}}]}}
"""
    assert world.apply(text).returncode == 0
    key = world.command("issue_key", "--agent", "watch/watched").stdout.strip()
    tool = Tool()

    async def scene() -> list[Any]:
        async with (
            Runtime(world.portal.url, key) as runtime,
            runtime.session("watched", user=STRANGER) as session,
        ):
            return [await session.call_tool("oa__read", {}, execute=tool) for _ in range(2)]

    first, second = play(scene())
    assert (first.blocked, second.blocked, len(tool.ran)) == (False, False, 2)
    would = next(part for part in second.trace if part["hook"] == "connector_rate_limit")
    assert "would" in would["outcome"]
    assert would["outcome"] != next(p for p in first.trace if p["hook"] == "connector_rate_limit")["outcome"]


class Failing(Hook):
    """Fails, in one of the ways in which a hook can."""

    name = "failing"
    timeout_seconds = 0.2

    def __init__(self, how: str, on_error: Any, point: str) -> None:
        self.how, self.on_error = how, on_error
        self.points = (HookEvent(point),)  # type: ignore[misc]

    async def execute(self, ctx: HookContext) -> HookResult:
        if self.how == "raises":
            raise RuntimeError("broken")
        if self.how == "hangs":
            await asyncio.sleep(30)
        return "yes"  # type: ignore[return-value]


@pytest.mark.parametrize("how", ["raises", "hangs", "answers nonsense"])
@pytest.mark.parametrize("on_error", ["deny", "allow"])
@pytest.mark.parametrize("point", ["PreToolUse", "PostToolUse"])
def test_a_failing_hook_follows_its_on_error(world: World, how: str, on_error: str, point: str) -> None:
    tool = Tool("secret result")

    async def scene() -> Any:
        async with Scene(world) as at, at.session("lenient") as session:
            session.hooks.register(Failing(how, on_error, point))
            return await session.call_tool("anything", {}, execute=tool)

    outcome = play(scene())
    stopped = on_error == "deny"
    assert len(tool.ran) == (0 if stopped and point == "PreToolUse" else 1)
    assert outcome.blocked is (stopped and point == "PreToolUse")
    assert ("secret result" in outcome.observation) is not stopped
    if stopped:
        assert "failing" in outcome.observation
    assert "failing" in {part["hook"] for part in outcome.trace}
