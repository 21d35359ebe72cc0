"""Section 5: the documented API of the package, against the real portal."""

import asyncio
import uuid
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
    SyncRuntime,
    ToolBlocked,
)

from tests.contract.conftest import World
from tests.contract.outside import KIM, STRANGER, digest
from tests.contract.playing import Scene, Tool, eventually, play

METADATA = {
    "org_id",
    "conversation_id",
    "tool_call_id",
    "connector",
    "action",
    "writes",
    "requires_confirmation",
}


class Seen(PreToolUseHook):
    """Keeps the contexts that it was shown."""

    name = "seen"

    def __init__(self, **attributes: Any) -> None:
        self.contexts: list[HookContext] = []
        self.answer = HookResult()
        for name, value in attributes.items():
            setattr(self, name, value)

    async def execute(self, ctx: HookContext) -> HookResult:
        self.contexts.append(ctx)
        return self.answer


class SeenAfter(PostToolUseHook):
    """Likewise, after the tool."""

    name = "seen_after"

    def __init__(self, answer: HookResult | None = None) -> None:
        self.results: list[Any] = []
        self.answer = answer or HookResult()

    async def execute(self, ctx: HookContext) -> HookResult:
        self.results.append(ctx.tool_result)
        return self.answer


def test_session_start_puts_its_text_into_the_context(world: World) -> None:
    async def scene() -> str:
        async with Scene(world) as at, at.session("procurement", user=KIM) as session:
            return str(session.context)

    text = play(scene())
    for word in ("procurement", "acme"):
        assert word in text.lower()
    assert "u42" in text or "Kim" in text or "kim@acme.test" in text


def test_a_call_that_needs_nobody(world: World) -> None:
    tool = Tool("three")

    async def scene() -> Any:
        async with Scene(world) as at, at.session("procurement") as session:
            return await session.call_tool("calculator", {"n": 1}, execute=tool)

    outcome = play(scene())
    assert (outcome.blocked, outcome.blocked_by, outcome.reason, outcome.error) == (False, None, None, None)
    assert (outcome.result, outcome.confirmation_id, outcome.side_effects) == ("three", None, [])
    assert "three" in outcome.observation
    assert outcome.raise_if_blocked() is None or outcome.raise_if_blocked() is outcome
    assert tool.ran == [{"n": 1}]
    assert {"readonly_guard", "audit_log"} <= {part["hook"] for part in outcome.trace}
    assert all({"hook", "outcome", "ms", "changed"} <= set(part) for part in outcome.trace)


def test_an_approved_call_runs_once_and_says_what_happened(world: World) -> None:
    events: list[Any] = []
    tool = Tool("paid")

    async def scene() -> Any:
        async with (
            Scene(world) as at,
            at.session(
                "procurement", user=STRANGER, conversation_id="c-approved", on_event=events.append
            ) as session,
        ):
            call = asyncio.create_task(
                session.call_tool("oa__pay", {"amount": 60000, "card_number": "4111"}, execute=tool)
            )
            await eventually(lambda: [e for e in events if e["type"] == "awaiting_confirmation"])
            assert not tool.ran
            pending = {"id": events[0]["id"]}
            assert (await asyncio.to_thread(world["bob"].respond, pending, "approve")).status_code == 200
            return await call

    outcome = play(scene())
    assert (outcome.blocked, outcome.result) == (False, "paid")
    assert tool.ran == [{"amount": 60000, "card_number": "4111"}]
    waiting, resolved = events
    assert set(waiting) >= {"id", "url", "expires_at"}
    assert waiting["url"].startswith(world.portal.url)
    assert (resolved["type"], resolved["id"]) == ("confirmation_resolved", outcome.confirmation_id)
    request = world["acme"].read({"id": outcome.confirmation_id})
    assert request["args_digest"] == digest({"amount": 60000, "card_number": "4111"})
    assert request["consumed_at"] is not None
    assert request["initiator"] == STRANGER
    entries = world["carol"].get("/calls", tool="oa__pay", status="succeeded").json()["results"]
    entry = next(e for e in entries if e["confirmation_id"] == outcome.confirmation_id)
    assert (entry["agent"], entry["conversation_id"], entry["surface"]) == (
        "procurement",
        "c-approved",
        "chat",
    )
    assert entry["args_digest"] == request["args_digest"]
    assert "4111" not in str(entry["args"])
    assert "approval_gate" in {part["hook"] for part in entry["trace"]}


def test_a_rejected_call_tells_the_model_why(world: World) -> None:
    events: list[Any] = []
    tool = Tool()

    async def scene() -> Any:
        async with Scene(world) as at, at.session("procurement", on_event=events.append) as session:
            call = asyncio.create_task(session.call_tool("oa__pay", {"amount": 1}, execute=tool))
            await eventually(lambda: events)
            await asyncio.to_thread(world["bob"].respond, events[0], "reject", reason="wrong supplier")
            return await call

    outcome = play(scene())
    assert (outcome.blocked, outcome.blocked_by, tool.ran) == (True, "approval_gate", [])
    assert "wrong supplier" in outcome.reason
    assert "approval_gate" in outcome.observation
    assert "wrong supplier" in outcome.observation
    assert [e["type"] for e in events] == ["awaiting_confirmation", "confirmation_resolved", "blocked"]
    with pytest.raises(ToolBlocked):
        outcome.raise_if_blocked()


def test_a_call_that_nobody_answers_is_blocked(world: World) -> None:
    tool = Tool()

    async def scene() -> Any:
        async with Scene(world) as at, at.session("quiet") as session:
            return await session.call_tool("oa__brief", {}, execute=tool)

    outcome = play(scene())
    assert (outcome.blocked, outcome.blocked_by, tool.ran) == (True, "approval_gate", [])
    assert "expired" in outcome.reason


def test_call_tool_raises_for_nothing_that_the_tool_did(world: World) -> None:
    async def scene() -> tuple[Any, Any]:
        async with Scene(world) as at, at.session("procurement") as session:
            failed = await session.call_tool("calculator", {}, execute=Tool(RuntimeError("no money")))
            impossible = await session.call_tool("calculator", {"n": float("nan")}, execute=Tool())
            return failed, impossible

    failed, impossible = play(scene())
    assert (failed.blocked, failed.result) == (False, None)
    assert "no money" in failed.error
    assert "no money" in failed.observation
    assert impossible.blocked
    assert "tool_args.n" in impossible.observation


def test_sync_tools_and_fronting_tools(world: World) -> None:
    guard = Seen()

    async def scene() -> Any:
        async with (
            Scene(world) as at,
            at.session("procurement", conversation_id="c9", user=STRANGER) as session,
        ):
            session.hooks.register(guard)
            await session.call_tool(
                "calculator", {"a": 1}, execute=lambda args: args["a"] + 1, tool_call_id="t1"
            )
            return await session.call_tool(
                "connector", {"q": "x"}, execute=lambda args: "found", action="oa__search"
            )

    outcome = play(scene())
    assert (outcome.blocked, outcome.result) == (False, "found")
    first, second = guard.contexts
    assert set(first.metadata) >= METADATA
    assert (first.tool_name, first.tool_args, first.event) == ("calculator", {"a": 1}, "PreToolUse")
    assert (first.conversation_id, first.user_id, first.surface) == ("c9", "u1", "chat")
    assert (first.metadata["tool_call_id"], first.metadata["connector"]) == ("t1", None)
    assert (first.metadata["conversation_id"], first.metadata["writes"]) == ("c9", False)
    assert first.metadata["org_id"]
    assert second.metadata["connector"] == "oa"
    assert second.metadata["action"] in ("search", "oa__search")
    assert second.metadata["requires_confirmation"] is False
    assert first.session_id == second.session_id
    assert first.metadata["tool_call_id"] != second.metadata["tool_call_id"]


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


def test_a_delegate_has_its_own_registry_and_gate(world: World) -> None:
    events: list[Any] = []
    tool = Tool()
    mine = Seen()

    async def scene() -> Any:
        async with Scene(world) as at, at.session("lead", user=STRANGER, conversation_id="c-d") as session:
            session.hooks.register(mine)
            free = await session.call_tool("lookup", {}, execute=tool)
            async with session.delegate("helper", on_event=events.append) as child:
                call = asyncio.create_task(child.call_tool("lookup", {}, execute=tool))
                await eventually(lambda: events)
                request = world["acme"].read(events[0])
                await asyncio.to_thread(world["bob"].respond, events[0], "approve")
                gated = await call
            refused = None
            try:
                async with session.delegate("procurement"):
                    pass
            except Exception as error:
                refused = error
            return free, gated, request, refused

    free, gated, request, refused = play(scene())
    assert (free.blocked, free.confirmation_id) == (False, None)
    assert (gated.blocked, request["agent"]) == (False, "helper")
    assert request["conversation_id"] == "c-d"
    assert request["initiator"] == STRANGER
    assert len(mine.contexts) == 1
    assert "procurement" in str(refused)
    entries = world["carol"].get("/calls", agent="helper").json()["results"]
    assert {entry["surface"] for entry in entries} == {"subagent"}


def test_an_evaluation_asks_nobody_and_writes_nothing(world: World) -> None:
    events: list[Any] = []
    tool, stub = Tool(), Tool("stubbed")

    async def scene() -> list[Any]:
        async with (
            Scene(world, key="eval") as at,
            at.session(
                "procurement", surface="eval", stubs={"oa__pay": stub}, on_event=events.append
            ) as session,
        ):
            return [
                await session.call_tool("oa__write", {"n": 1}, execute=tool),
                await session.call_tool("oa__plain", {"n": 2}, execute=tool),
                await session.call_tool("unlisted", {"n": 3}, execute=tool),
                await session.call_tool("oa__pay", {"n": 4}, execute=tool),
                await session.call_tool("oa__search", {"n": 5}, execute=tool),
            ]

    writes, asks, unlisted, stubbed, reads = play(scene())
    for outcome in (writes, asks, unlisted):
        assert outcome.blocked
        assert outcome.observation
    assert (stubbed.blocked, stubbed.result, stub.ran) == (False, "stubbed", [{"n": 4}])
    assert (reads.blocked, tool.ran) == (False, [{"n": 5}])
    assert [event for event in events if event["type"] == "awaiting_confirmation"] == []


def test_a_declared_rate_limit_holds_across_sessions(world: World) -> None:
    tool, user = Tool(), {"id": uuid.uuid4().hex}

    async def scene() -> list[Any]:
        outcomes = []
        async with Scene(world) as at:
            for _ in range(3):
                async with at.session("limited", user=user) as session:
                    outcomes.append(await session.call_tool("oa__search", {}, execute=tool))
            async with at.session("limited", user={"id": "another"}) as session:
                outcomes.append(await session.call_tool("oa__search", {}, execute=tool))
        return outcomes

    outcomes = play(scene())
    assert [outcome.blocked for outcome in outcomes] == [False, False, True, False]
    assert outcomes[2].blocked_by == "connector_rate_limit"
    assert len(tool.ran) == 3


def test_the_key_and_the_address_may_come_from_the_environment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGATE_URL", world.portal.url)
    monkeypatch.setenv("HOOKGATE_KEY", world.issued["acme"])

    async def scene() -> Any:
        async with Runtime.from_env() as runtime, runtime.session("lenient") as session:
            return await session.call_tool("anything", {}, execute=Tool("ok"))

    assert play(scene()).result == "ok"


def test_without_asyncio(world: World) -> None:
    with (
        SyncRuntime(world.portal.url, world.issued["acme"], name="plain") as runtime,
        runtime.session("lenient", user=STRANGER) as session,
    ):
        outcome = session.call_tool("anything", {"n": 1}, execute=lambda args: args["n"] + 1)
        assert session.emit("Stop").allow is True
    assert (outcome.blocked, outcome.result) == (False, 2)


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


def test_two_runtimes_with_the_same_call_run_it_once(world: World) -> None:
    events: list[Any] = []
    tool, conversation = Tool("paid"), uuid.uuid4().hex

    async def one(at: Scene) -> Any:
        async with at.session("quiet", conversation_id=conversation, on_event=events.append) as session:
            return await session.call_tool("oa__pay", {"n": 1}, execute=tool, tool_call_id="shared")

    async def scene() -> list[Any]:
        async with Scene(world) as first, Scene(world) as second:
            calls = [asyncio.create_task(one(at)) for at in (first, second)]
            await eventually(lambda: len([e for e in events if e["type"] == "awaiting_confirmation"]) == 2)
            await asyncio.to_thread(world["bob"].respond, events[0], "approve")
            return await asyncio.gather(*calls)

    outcomes = play(scene())
    assert len({outcome.confirmation_id for outcome in outcomes}) == 1
    assert sorted(outcome.blocked for outcome in outcomes) == [False, True]
    assert tool.ran == [{"n": 1}]


@pytest.mark.parametrize("user", [None, {"id": 42}, {"id": "u1", "name": "Lee"}, {"email": "kim@acme.test"}])
def test_every_user_is_on_record(world: World, user: Any) -> None:
    conversation = uuid.uuid4().hex

    async def scene() -> Any:
        async with (
            Scene(world) as at,
            at.session("lenient", user=user, conversation_id=conversation) as session,
        ):
            return await session.call_tool("anything", {}, execute=Tool("ok"))

    assert play(scene()).result == "ok"
    listed = world["carol"].get("/calls", tool="anything", agent="lenient").json()["results"]
    entry = next((row for row in listed if row["conversation_id"] == conversation), None)
    assert entry is not None, "the call is not in the log"
    if user and "id" in user:
        assert str(user["id"]) in str(entry["user"])


@pytest.mark.parametrize("user", [{"id": 42}, {"email": "kim@acme.test"}, {"id": "u1", "name": None}])
def test_every_user_may_be_the_initiator(world: World, user: Any) -> None:
    events: list[Any] = []

    async def scene() -> Any:
        async with Scene(world) as at, at.session("quiet", user=user, on_event=events.append) as session:
            call = asyncio.create_task(session.call_tool("oa__pay", {}, execute=Tool(), tool_call_id="t"))
            await eventually(lambda: events)
            await session.cancel("t")
            return await call

    outcome = play(scene())
    assert events[0]["type"] == "awaiting_confirmation", outcome.reason
