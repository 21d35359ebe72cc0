"""Section 5, "Order" and the catalogue: priorities, failures of declared hooks, and what each built-in does."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hookgate import HookContext, HookEvent, HookResult, PostToolUseHook

from tests.contract.conftest import World
from tests.contract.outside import KIM, STRANGER
from tests.contract.playing import Scene, Seen, Tool, play

PREFIXES = ["tests.contract."]


def outcomes(trace: list[Any], name: str) -> list[str]:
    """What became of one hook."""
    return [part["outcome"] for part in trace if part["hook"] == name]


def test_lower_priorities_run_earlier_equal_ones_as_they_came_and_declared_ones_first(hooked: World) -> None:
    orders = [("z", 500), ("late", 899), ("a", 500), ("early", 0), ("m", 500), ("beyond", 5000)]

    async def scene() -> Any:
        async with (
            Scene(hooked, key="hooked", python_handlers=PREFIXES) as at,
            at.session("matched") as session,
        ):
            for name, priority in orders:
                session.hooks.register(Seen(name=name, priority=priority))
            names = [hook.name for hook in session.hooks.hooks("PreToolUse")]
            return await session.call_tool("mail", {}, execute=Tool()), names

    outcome, names = play(scene())
    ran = [part["hook"] for part in outcome.trace if not part["hook"].startswith("PostToolUse")]
    handlers = [f"PreToolUse[{group}].hooks[{place}]" for group, place in ((0, 0), (0, 1), (1, 0), (2, 0))]
    ours = [name for name in ran if name not in ("readonly_guard", "audit_log", "approval_gate")]
    assert ours == ["early", *handlers, "z", "a", "m", "late", "beyond"]
    # The gate is the last of all, also where it has nothing to ask.
    assert names[-1] == "approval_gate"


def test_the_gate_comes_after_everybody_whatever_their_priority(hooked: World) -> None:
    last = Seen(name="last", priority=100_000)
    last.answer = HookResult(allow=False, error="no need to ask")
    events: list[Any] = []

    async def scene() -> Any:
        async with Scene(hooked, key="hooked") as at, at.session("whole", on_event=events.append) as session:
            session.hooks.register(last)
            return await session.call_tool("oa__pay", {}, execute=Tool())

    outcome = play(scene())
    assert (outcome.blocked_by, outcome.confirmation_id) == ("last", None)
    assert [event["type"] for event in events] == ["blocked"]
    assert outcomes(outcome.trace, "connector_rate_limit") == ["allowed"]


def test_failing_handlers_deny_at_blocking_points_and_allow_elsewhere(hooked: World) -> None:
    tool = Tool("result")

    async def scene() -> tuple[dict[str, Any], dict[str, Any], Any]:
        async with (
            Scene(hooked, key="hooked", python_handlers=PREFIXES) as at,
            at.session("broken") as session,
        ):
            points = "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact", "Notification", "PostCompact"
            emitted = {point: await session.emit(point) for point in points}
            calls = {
                name: await session.call_tool(name, {}, execute=tool)
                for name in ("raises", "nonsense", "fine")
            }
            return emitted, calls, dict(session.hooks.failures)

    emitted, calls, failures = play(scene())
    assert [point for point, merged in emitted.items() if merged.allow] == ["Notification", "PostCompact"]
    for point, merged in emitted.items():
        word = "failed_allowed" if merged.allow else "failed_denied"
        assert outcomes(merged.trace, f"{point}[0].hooks[0]") == [word]
    assert (calls["raises"].blocked_by, calls["nonsense"].blocked_by) == (
        "PreToolUse[0].hooks[0]",
        "PreToolUse[1].hooks[0]",
    )
    assert (calls["fine"].blocked, calls["fine"].result, len(tool.ran)) == (False, "result", 1)
    assert outcomes(calls["fine"].trace, "PostToolUse[0].hooks[0]") == ["failed_allowed"]
    assert failures["PostToolUse[0].hooks[0]"] == 1


class Rewriting(PostToolUseHook):
    """Adds a letter to the result."""

    def __init__(self, letter: str, priority: int, *, fails: bool = False) -> None:
        self.name, self.priority, self.letter, self.fails = letter, priority, letter, fails
        if fails:
            self.on_error = "deny"

    async def execute(self, ctx: HookContext) -> HookResult:
        if self.fails:
            raise RuntimeError("broken")
        return HookResult(modified_result=ctx.tool_result + self.letter, allow=False)


def test_results_flow_on_and_a_denying_failure_after_the_tool_withholds_them(hooked: World) -> None:
    tool = Tool("secret")

    async def scene() -> tuple[Any, Any]:
        async with Scene(hooked, key="hooked") as at, at.session("self") as session:
            session.hooks.register(Rewriting("b", 20))
            session.hooks.register(Rewriting("a", 10))
            flowed = await session.call_tool("anything", {}, execute=tool)
            session.hooks.register(Rewriting("x", 30, fails=True))
            return flowed, await session.call_tool("anything", {}, execute=tool)

    flowed, withheld = play(scene())
    assert (flowed.result, flowed.blocked, outcomes(flowed.trace, "a")) == ("secretab", False, ["ignored"])
    assert len(tool.ran) == 2
    assert (withheld.blocked, withheld.withheld, withheld.blocked_by) == (False, True, "x")
    assert "secret" not in withheld.observation
    assert "x" in withheld.observation


def test_what_the_catalogue_does(hooked: World) -> None:
    async def scene() -> tuple[str, Any, Any, Any]:
        async with Scene(hooked, key="hooked") as at, at.session("whole", user=KIM) as session:
            text = session.context
            long = await session.call_tool("oa__read", {}, execute=Tool("x" * 500))
            told = await session.emit("Notification")
            return text, long, told, await session.emit("Stop")

    text, long, told, stop = play(scene())
    assert text.split() == [f"{datetime.now(UTC):%Y-%m-%d}", "hooked", "whole", "Kim"]
    assert len(long.result) <= 200
    assert "300" in long.result or "left out" in long.result
    assert outcomes(long.trace, "result_truncate") == ["allowed"]
    assert {"readonly_guard", "audit_log", "connector_rate_limit"} <= {part["hook"] for part in long.trace}
    assert outcomes(told.trace, "notify") == ["allowed"]
    # It is told of the points that it names, and of no others.
    assert outcomes(stop.trace, "notify") == []
    hooked.card("told at Notification", chat="oc_2")


def test_a_notice_may_be_sent_at_any_point(hooked: World) -> None:
    async def scene() -> list[list[str]]:
        async with Scene(hooked, key="hooked") as at, at.session("anywhere") as session:
            merged = [await session.emit(event, tool_name="x", tool_args={}) for event in HookEvent]
            return [outcomes(one.trace, "notify") for one in merged]

    assert play(scene()) == [["would_allow"]] * 15


def test_every_name_of_the_catalogue_is_served(hooked: World) -> None:
    async def scene() -> list[str]:
        async with Scene(hooked, key="hooked") as at, at.session("whole", user=STRANGER) as session:
            return [hook.name for event in ("SessionStart", "PreToolUse", "PostToolUse", "Notification")
                    for hook in session.hooks.hooks(event)]  # fmt: skip

    names = play(scene())
    assert set(names) == {
        "approval_gate", "readonly_guard", "audit_log", "result_truncate", "connector_rate_limit", "session_context",
        "notify",
    }  # fmt: skip
    assert names.count("approval_gate") == 1


@pytest.mark.parametrize("priority", [-1, 900])
def test_others_have_a_priority_from_0_to_899(world: World, priority: int) -> None:
    done = world.apply(
        f"""
apiVersion: hookgate/v1
organizations:
  - slug: bounds
    name: Bounds
    agents: [{{slug: a, name: A, hooks: {{class_hooks: [{{name: session_context, priority: {priority}}}]}}}}]
""",
        "--dry-run",
    )
    assert done.returncode == 1
    assert "class_hooks[0].priority" in done.stderr
