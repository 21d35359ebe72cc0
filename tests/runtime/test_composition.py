"""Properties of composition, over generated chains."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hookgate import HookContext, HookRegistry, HookResult, PostToolUseHook, PreToolUseHook, SessionStartHook
from hookgate.result import MergedResult
from hypothesis import given, settings
from hypothesis import strategies as st

ACTS = ("pass", "append", "deny", "raise", "cancel", "wrong", "bad_args", "in_place")


@dataclass
class Step:
    """What one generated hook does."""

    act: str
    priority: int
    on_error: str | None
    suspends: bool
    name: str = ""
    seen: list[Any] = field(default_factory=list)


class Scripted(PreToolUseHook):
    """Plays a step and notes what it was shown."""

    def __init__(self, step: Step) -> None:
        self.step, self.name, self.priority = step, step.name, step.priority
        self.on_error = step.on_error  # type: ignore[assignment]

    async def execute(self, ctx: HookContext) -> HookResult:
        if self.step.suspends:
            await asyncio.sleep(0)
        self.step.seen.append(list(ctx.tool_args["log"]))
        match self.step.act:
            case "append":
                return HookResult(modified_args={"log": [*ctx.tool_args["log"], self.name]})
            case "deny":
                return HookResult(
                    allow=False, error=f"{self.name} says no", modified_args={"log": ["forged"]}
                )
            case "raise":
                raise RuntimeError("boom")
            case "cancel":
                raise asyncio.CancelledError
            case "wrong":
                return {"allow": True}  # type: ignore[return-value]
            case "bad_args":
                return HookResult(modified_args={"log": [float("nan")]})
            case "in_place":
                ctx.tool_args["log"].append("smuggled")
        return HookResult()


STEPS = st.lists(
    st.builds(
        Step,
        act=st.sampled_from(ACTS),
        priority=st.integers(0, 5),
        on_error=st.sampled_from([None, "deny", "allow"]),
        suspends=st.booleans(),
    ),
    max_size=8,
)


def expect(steps: list[Step]) -> tuple[list[str], list[str], str | None]:
    """By the contract's words: who runs, what the arguments become, who blocks."""
    ran: list[str] = []
    log: list[str] = []
    for step in sorted(steps, key=lambda step: step.priority):
        ran.append(step.name)
        failed = step.act in ("raise", "cancel", "wrong", "bad_args")
        if step.act == "deny" or (failed and step.on_error != "allow"):
            return ran, log, step.name
        if step.act == "append":
            log = [*log, step.name]
    return ran, log, None


async def play(steps: list[Step], given_args: dict[str, Any]) -> MergedResult:
    registry = HookRegistry(map(Scripted, steps))
    return await registry.run_pre_tool(HookContext(tool_name="t", tool_args=given_args))


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_order_flow_and_denial(steps: list[Step]) -> None:
    for index, step in enumerate(steps):
        step.name = f"h{index}"
    ran, log, blocker = expect(steps)
    given_args: dict[str, Any] = {"log": []}
    merged = asyncio.run(play(steps, given_args))
    assert [entry["hook"] for entry in merged.trace] == ran
    assert (merged.allow, merged.blocked_by) == (blocker is None, blocker)
    assert (merged.modified_args or {"log": []}) == {"log": log}
    assert given_args == {"log": []}
    # No hook sees a later hook's change, nor one that was made in place.
    so_far: list[str] = []
    for step in sorted(steps, key=lambda step: step.priority):
        if step.name not in ran:
            assert step.seen == []
            continue
        assert step.seen == [so_far]
        if step.act == "append":
            so_far = [*so_far, step.name]


@settings(max_examples=50, deadline=None)
@given(STEPS)
def test_the_same_chain_gives_the_same_answer(steps: list[Step]) -> None:
    for index, step in enumerate(steps):
        step.name = f"h{index}"
    first, second = (asyncio.run(play(steps, {"log": []})) for _ in range(2))
    shape = [
        [(entry["hook"], entry["outcome"], entry["changed"]) for entry in run.trace]
        for run in (first, second)
    ]
    assert shape[0] == shape[1]
    assert (first.error, first.modified_args) == (second.error, second.modified_args)


def run_pre(*hooks: PreToolUseHook, **context: Any) -> MergedResult:
    registry = HookRegistry(hooks)
    return asyncio.run(registry.run_pre_tool(HookContext(**context)))


def test_a_hook_that_hangs_is_timed_out_and_follows_on_error() -> None:
    class Hang(PreToolUseHook):
        name = "hang"
        timeout_seconds = 0.02

        async def execute(self, ctx: HookContext) -> HookResult:
            await asyncio.sleep(60)
            return HookResult()

    merged = run_pre(Hang())
    assert (merged.allow, merged.error) == (
        False,
        "the hook timed out: HookTimedOut: no answer within 0.02 s",
    )
    Hang.on_error = "allow"
    merged = run_pre(Hang())
    assert (merged.allow, merged.trace[0]["outcome"]) == (True, "timed_out_allowed")


def test_a_hook_that_swallows_its_time_out_and_one_that_suspends_often_both_end() -> None:
    class Stubborn(PreToolUseHook):
        timeout_seconds = 0.02

        async def execute(self, ctx: HookContext) -> HookResult:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                return HookResult(modified_args={"late": True})
            return HookResult()

    class Busy(PreToolUseHook):
        async def execute(self, ctx: HookContext) -> HookResult:
            for _ in range(20):
                await asyncio.sleep(0)
            async with asyncio.timeout(1):
                await asyncio.sleep(0.001)
            return HookResult(modified_args={"n": 1})

    assert run_pre(Stubborn()).trace[0]["outcome"] == "timed_out_denied"
    assert run_pre(Busy()).modified_args == {"n": 1}


def test_cancelling_the_task_passes_through_a_hook() -> None:
    class Hang(PreToolUseHook):
        on_error = "allow"

        async def execute(self, ctx: HookContext) -> HookResult:
            await asyncio.sleep(60)
            return HookResult()

    async def run() -> None:
        task = asyncio.create_task(HookRegistry([Hang()]).run_pre_tool(HookContext()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


@pytest.mark.parametrize(
    "result",
    [
        HookResult(allow="no"),  # type: ignore[arg-type]
        HookResult(error=3),  # type: ignore[arg-type]
        HookResult(side_effects="x"),  # type: ignore[arg-type]
        HookResult(modified_args=[1]),  # type: ignore[arg-type]
        HookResult(modified_args={"s": "\ud800"}),
        HookResult(additional_context=b"x"),  # type: ignore[arg-type]
        HookResult(stop=1),  # type: ignore[arg-type]
        True,
        None,
    ],
)
def test_a_result_of_the_wrong_type_is_a_failure(result: Any) -> None:
    class Wrong(PreToolUseHook):
        async def execute(self, ctx: HookContext) -> HookResult:
            return result  # type: ignore[no-any-return]

    assert run_pre(Wrong()).trace[0]["outcome"] == "failed_denied"


def test_a_sync_execute_and_a_failing_trigger_are_failures() -> None:
    class Sync(PreToolUseHook):
        def execute(self, ctx: HookContext) -> HookResult:  # type: ignore[override]
            return HookResult()

    class Picky(PreToolUseHook):
        def should_trigger(self, ctx: HookContext) -> bool:
            raise KeyError("x")

        async def execute(self, ctx: HookContext) -> HookResult:
            return HookResult()

    assert run_pre(Sync()).trace[0]["outcome"] == "failed_denied"
    assert run_pre(Picky()).trace[0]["outcome"] == "failed_denied"


def test_an_exception_that_can_not_say_what_it_is_is_still_a_failure() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    class Raises(PreToolUseHook):
        async def execute(self, ctx: HookContext) -> HookResult:
            raise Mute

    assert run_pre(Raises()).error == "the hook failed: Mute"


def test_changed_names_every_argument_that_differs() -> None:
    class Change(PreToolUseHook):
        async def execute(self, ctx: HookContext) -> HookResult:
            return HookResult(modified_args={"same": [1], "number": 1.5, "kind": True, "new": 0})

    args = {"same": [1], "number": 1, "kind": 1, "gone": 0}
    changed = run_pre(Change(), tool_args=args).trace[0]["changed"]
    assert changed == ["args.number", "args.kind", "args.gone", "args.new"]


def test_filters_are_case_sensitive_and_follow_what_is_registered() -> None:
    class Filtered(PreToolUseHook):
        name = "filtered"
        tool_filter = "oa__*"

        async def execute(self, ctx: HookContext) -> HookResult:
            return HookResult(allow=False)

    registry = HookRegistry([Filtered()])

    def allows(name: str) -> bool:
        return asyncio.run(registry.run_pre_tool(HookContext(tool_name=name))).allow

    assert [allows(name) for name in ("oa__pay", "OA__pay", "xoa__pay", "")] == [False, True, True, True]
    assert registry.unregister("filtered")
    assert allows("oa__pay")
    assert not registry.unregister("filtered")


def test_duplicate_names_are_refused() -> None:
    class Same(PreToolUseHook):
        name = "same"

        async def execute(self, ctx: HookContext) -> HookResult:
            return HookResult()

    with pytest.raises(ValueError, match="'same' is registered already"):
        HookRegistry([Same(), Same()])


def test_post_and_start_chains() -> None:
    class Double(PostToolUseHook):
        def __init__(self, name: str) -> None:
            self.name = name

        async def execute(self, ctx: HookContext) -> HookResult:
            return HookResult(modified_result=ctx.tool_result * 2, allow=False)

    class Greet(SessionStartHook):
        async def execute(self, ctx: HookContext) -> HookResult:
            return HookResult(additional_context="hello")

    async def run() -> None:
        registry = HookRegistry([Double("a"), Double("b"), Greet()])
        context = HookContext("PostToolUse", tool_result=3)
        merged = await registry.run_post_tool(context)
        assert (merged.modified_result, merged.allow) == (12, True)
        assert [entry["outcome"] for entry in merged.trace] == ["ignored", "ignored"]
        assert (await registry.run_session_start(context)).additional_context == "hello"
        assert (await registry.run("SessionStart", context)).additional_context == "hello"
        assert len(registry) == 3

    asyncio.run(run())


def test_a_result_that_can_not_be_copied_is_shared_and_a_list_is_not() -> None:
    lock = asyncio.Lock()
    result = [lock, [1]]
    context = HookContext("PostToolUse", tool_result=[[1]])
    context.tool_result[0].append(2)
    assert context.tool_result == [[1, 2]]
    assert context._result == [[1]]
    assert HookContext("PostToolUse", tool_result=result).tool_result[0].locked() is False
