"""Tool calls through the public API, against a portal over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hookgate import HookContext, HookResult, Outcome, PostToolUseHook, PreToolUseHook, ToolBlocked

from tests.runtime.documents import evaluation, manifest, switched
from tests.runtime.harness import USER, Tool, serve


def call(document: dict[str, Any], name: str, args: Any, tool: Any, *hooks: Any, **options: Any) -> Outcome:
    """One call of one session."""

    async def run() -> Outcome:
        async with serve(document) as (_, runtime), runtime.session("procurement", user=USER) as session:
            for item in hooks:
                session.hooks.register(item)
            return await session.call_tool(name, args, execute=tool, **options)

    return asyncio.run(run())


def test_a_call_that_needs_no_approval_runs_with_its_arguments_and_returns_the_result() -> None:
    tool = Tool({"rows": [1, "é"]})
    outcome = call(manifest(), "oa__read", {"id": 7}, tool)
    assert tool.runs == [{"id": 7}]
    assert (outcome.blocked, outcome.status, outcome.result) == (False, "succeeded", {"rows": [1, "é"]})
    assert outcome.observation == '{"rows": [1, "é"]}'
    assert [entry["hook"] for entry in outcome.trace] == ["readonly_guard", "audit_log"]
    assert all(set(entry) == {"hook", "outcome", "ms", "changed"} for entry in outcome.trace)
    outcome.raise_if_blocked()


def test_a_sync_tool_runs_too() -> None:
    outcome = call(manifest(), "oa__read", {"id": 7}, lambda args: args["id"] * 2)
    assert outcome.result == 14


def test_a_tool_that_raises_is_an_observation_and_not_an_exception() -> None:
    outcome = call(manifest(), "oa__read", {}, Tool(error=ValueError("no such row")))
    assert (outcome.blocked, outcome.status, outcome.error) == (False, "failed", "ValueError: no such row")
    assert outcome.observation == "Tool oa__read failed: ValueError: no such row"


def test_a_tool_that_times_out_is_told_apart() -> None:
    assert call(manifest(), "oa__read", {}, Tool(error=TimeoutError())).status == "timed_out"


def test_a_tool_may_raise_stop_iteration_without_hanging_the_agent() -> None:
    def exhausted(args: dict[str, Any]) -> Any:
        return next(iter(()))

    outcome = call(manifest(), "oa__read", {}, exhausted)
    assert outcome.status == "failed"


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"items": [1, 2, 3, {"x": float("nan")}]}, "tool_args.items[3].x"),
        ({"n": 2**53}, "tool_args.n"),
        ({"s": "\ud800"}, "tool_args.s"),
        ({"s": "a\x00"}, "tool_args.s"),
        ({"s": object()}, "tool_args.s"),
        ({1: 2}, "tool_args"),
        ([1], "tool_args"),
    ],
)
def test_arguments_that_are_not_canonical_block_the_call_and_name_the_place(args: Any, path: str) -> None:
    tool = Tool()
    outcome = call(manifest(), "oa__read", args, tool)
    assert tool.runs == []
    assert (outcome.blocked, outcome.blocked_by) == (True, "arguments")
    assert outcome.reason is not None
    assert outcome.reason.startswith(f"args_not_canonical: {path}: ")
    with pytest.raises(ToolBlocked, match="args_not_canonical"):
        outcome.raise_if_blocked()


def test_halt_blocks_every_call_before_any_hook() -> None:
    tool = Tool()
    document = switched(manifest(), halted=True, reason="incident 7", until="2027-01-01T00:00:00Z")
    outcome = call(document, "oa__read", {}, tool)
    assert tool.runs == []
    assert (outcome.blocked_by, outcome.reason) == ("halted", "incident 7 (until 2027-01-01T00:00:00Z)")
    assert outcome.trace == []


@pytest.mark.parametrize(
    ("name", "runs"), [("oa__read", True), ("oa__write", False), ("nobody_knows_me", False)]
)
def test_read_only_blocks_what_writes_and_what_nobody_lists(name: str, runs: bool) -> None:
    tool = Tool()
    document = switched(manifest(unlisted_tools="allow"), read_only=True)
    outcome = call(document, name, {}, tool)
    assert bool(tool.runs) is runs
    assert outcome.blocked_by == (None if runs else "readonly_guard")
    if not runs:
        assert outcome.observation == (
            f"Tool call {name} was blocked by readonly_guard: "
            "the organization is in read-only mode and this tool writes"
        )
        assert outcome.side_effects == [f"readonly_guard: blocked {name}"]


def test_unlisted_tools_can_be_denied_or_allowed() -> None:
    tool = Tool()
    denied = call(manifest(unlisted_tools="deny"), "mystery", {}, tool)
    assert (denied.blocked_by, tool.runs) == ("unlisted_tools", [])
    assert call(manifest(unlisted_tools="allow"), "mystery", {}, tool).status == "succeeded"


def test_a_connector_wide_entry_covers_its_other_actions() -> None:
    anything = {
        "name": "oa__*",
        "connector": "oa",
        "writes": False,
        "requires_confirmation": False,
        "redact": [],
    }
    tool = Tool()
    document = manifest(tools=[anything], unlisted_tools="deny")
    assert call(document, "oa__whatever", {}, tool).status == "succeeded"
    assert call(document, "crm__whatever", {}, tool).blocked_by == "unlisted_tools"


class Raise(PreToolUseHook):
    """Adds to the amount."""

    def __init__(self, name: str, by: int, priority: int) -> None:
        self.name, self.by, self.priority = name, by, priority

    async def execute(self, ctx: HookContext) -> HookResult:
        return HookResult(modified_args={**ctx.tool_args, "amount": ctx.tool_args["amount"] * 10 + self.by})


def test_rewritten_arguments_flow_on_in_order_of_priority_and_reach_the_tool() -> None:
    tool = Tool()
    outcome = call(
        manifest(),
        "oa__read",
        {"amount": 0, "to": "x"},
        tool,
        Raise("b", 2, 20),
        Raise("a", 1, 15),
        Raise("c", 3, 20),
    )
    assert tool.runs == [{"amount": 123, "to": "x"}]
    changed = {entry["hook"]: entry["changed"] for entry in outcome.trace}
    assert changed == {
        "readonly_guard": [], "a": ["args.amount"], "b": ["args.amount"], "c": ["args.amount"], "audit_log": [],
    }  # fmt: skip


def test_what_a_hook_changes_in_place_is_lost() -> None:
    class Sneaky(PreToolUseHook):
        async def execute(self, ctx: HookContext) -> HookResult:
            ctx.tool_args["amount"] = 1
            return HookResult()

    tool, given = Tool(), {"amount": 5}
    call(manifest(), "oa__read", given, tool, Sneaky())
    assert tool.runs == [{"amount": 5}]
    assert given == {"amount": 5}


def test_a_context_is_read_only() -> None:
    with pytest.raises(AttributeError, match="return a HookResult"):
        HookContext().tool_name = "x"


def test_the_seed_example_runs_as_printed() -> None:
    def org_is_readonly(org_id: str) -> bool:
        return org_id == "acme"

    class ReadOnlyGuard(PreToolUseHook):
        name = "readonly_guard"
        priority = 5  # lower runs earlier  # fmt: skip

        def should_trigger(self, ctx: HookContext) -> bool:
            return ctx.tool_name.startswith("sql_")

        async def execute(self, ctx: HookContext) -> HookResult:
            if org_is_readonly(ctx.metadata["org_id"]):
                return HookResult(
                    allow=False,
                    error="Org is in read-only mode — write blocked.",
                    side_effects=["readonly_guard: blocked sql write"],
                )
            return HookResult()  # default: allow=True, no mutation  # fmt: skip

    tool = Tool()
    document = manifest(unlisted_tools="allow")
    outcome = call(document, "sql_delete", {}, tool, ReadOnlyGuard())
    assert tool.runs == []
    assert outcome.observation == (
        "Tool call sql_delete was blocked by readonly_guard: Org is in read-only mode — write blocked."
    )
    assert outcome.side_effects == ["readonly_guard: blocked sql write"]
    assert call(document, "oa__read", {}, tool, ReadOnlyGuard()).status == "succeeded"


def test_a_result_can_be_rewritten_and_its_failure_can_withhold_it() -> None:
    class Mask(PostToolUseHook):
        async def execute(self, ctx: HookContext) -> HookResult:
            return HookResult(
                modified_result=ctx.tool_result.replace("secret", "***"), additional_context="masked"
            )

    outcome = call(manifest(), "oa__read", {}, Tool("a secret"), Mask())
    assert (outcome.result, outcome.observation) == ("a ***", "a ***\n\nmasked")
    Mask.on_error = "deny"
    withheld = call(manifest(), "oa__read", {}, Tool(42), Mask())
    assert (withheld.status, withheld.blocked, withheld.withheld, withheld.result) == (
        "succeeded",
        False,
        True,
        None,
    )
    assert "42" not in withheld.observation
    assert withheld.observation.startswith("Tool oa__read has run, and must not be called again for this")
    Mask.on_error = None
    assert call(manifest(), "oa__read", {}, Tool(42), Mask()).result == 42


def test_the_context_has_everything_that_the_contract_names() -> None:
    seen: list[HookContext] = []

    class Look(PreToolUseHook):
        async def execute(self, ctx: HookContext) -> HookResult:
            seen.append(ctx)
            return HookResult()

    async def run() -> None:
        async with (
            serve(manifest()) as (_, runtime),
            runtime.session("procurement", user=USER, conversation_id="c7") as session,
        ):
            session.hooks.register(Look())
            await session.call_tool(
                "connector",
                {},
                execute=Tool(),
                action="oa__read",
                tool_call_id="call_01",
                metadata={"run": 3},
            )
            assert seen[0].session_id == session.id

    asyncio.run(run())
    ctx = seen[0]
    assert (ctx.event, ctx.tool_name, ctx.user_id, ctx.conversation_id, ctx.surface) == (
        "PreToolUse", "oa__read", "u42", "c7", "chat",
    )  # fmt: skip
    expected = {
        "org_id": "acme", "conversation_id": "c7", "tool_call_id": "call_01", "connector": "oa", "action": "read",
        "writes": False, "requires_confirmation": False, "run": 3, "called_as": "connector",
    }  # fmt: skip
    assert {key: ctx.metadata[key] for key in expected} == expected


def test_a_gate_cannot_be_passed_by_calling_through_a_fronting_tool() -> None:
    async def run() -> None:
        async with serve(manifest()) as (portal, runtime), runtime.session("procurement") as session:
            tool = Tool()
            task = asyncio.create_task(
                session.call_tool("connector", {}, execute=tool, action="oa__purchase_pay")
            )
            (request,) = await portal.pending()
            assert request["tool_name"] == "oa__purchase_pay"
            await portal.settle(request["id"], "rejected", reason="no")
            assert (await task).blocked
            assert tool.runs == []

    asyncio.run(run())


def test_evaluation_asks_nobody_and_runs_nothing_that_writes_without_a_stub() -> None:
    async def run() -> None:
        document = evaluation()
        async with serve(document) as (portal, runtime):
            stub = Tool("stubbed")
            stubs = {"oa__write": stub}
            async with runtime.session("procurement", surface="eval", stubs=stubs) as session:
                tool = Tool("real")
                assert (await session.call_tool("oa__write", {"a": 1}, execute=tool)).result == "stubbed"
                assert (await session.call_tool("oa__read", {}, execute=tool)).result == "real"
                for name in ("oa__purchase_pay", "unlisted"):
                    assert (await session.call_tool(name, {}, execute=tool)).blocked_by == "eval"
                assert (len(tool.runs), stub.runs, portal.confirmations) == (1, [{"a": 1}], {})
            portal.publish(switched(document, halted=True))
            async with runtime.session("procurement", surface="eval", stubs=stubs) as session:
                await session.source.refresh(force=True)
                assert (await session.call_tool("oa__read", {}, execute=tool)).blocked_by == "halted"

    asyncio.run(run())
