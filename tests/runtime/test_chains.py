"""Composition against a second, tiny model of the contract's words: every point, every kind of answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from hookgate import HookContext, HookEvent, HookRegistry, HookResult, PostToolUseHook, PreToolUseHook
from hookgate.engine.chains import Bound
from hookgate.events import BLOCKING_POINTS, TOOL_POINTS
from hookgate.hook import Hook
from hookgate.matching.matching import compile_condition, compile_tool_filter
from hookgate.result import MergedResult
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.documents import manifest
from tests.runtime.gating import always
from tests.runtime.harness import USER, Tool, serve

FAILURES = ("raise", "wrong")
# What each condition says of arguments whose `n` is given; None where it can't say anything.
CONDITIONS: dict[str | None, Any] = {
    None: lambda n: True,
    "args.n >= 2": lambda n: n >= 2,
    "surface == 'dag'": lambda n: False,
    "args.missing > 1": lambda n: None,
}


@dataclass
class Part:
    """A declared hook and what it does."""

    act: str
    priority: int
    on_error: str | None
    observe: bool
    when: str | None
    tool_filter: str | None
    name: str = ""


class Player(Hook):
    """Plays a part."""

    points = tuple(HookEvent)

    def __init__(self, part: Part) -> None:
        self.part = part

    async def execute(self, ctx: HookContext) -> HookResult:
        if self.part.act == "raise":
            raise RuntimeError("boom")
        if self.part.act == "wrong":
            return "yes"  # type: ignore[return-value]
        if self.part.act == "rewrite":
            return HookResult(
                modified_args={"n": ctx.tool_args["n"] + 1}, modified_result=f"{ctx.tool_result}+"
            )
        if self.part.act == "text":
            return HookResult(
                side_effects=[self.part.name], additional_context=self.part.name, stop=True,
                system_message=self.part.name,
            )  # fmt: skip
        return HookResult(allow=self.part.act != "deny", error=self.part.name)


PARTS = st.lists(
    st.builds(
        Part,
        act=st.sampled_from(("pass", "rewrite", "text", "deny", *FAILURES)),
        priority=st.integers(0, 3),
        on_error=st.sampled_from([None, "deny", "allow", "allow"]),
        observe=st.booleans(),
        when=st.sampled_from(list(CONDITIONS)),
        tool_filter=st.sampled_from([None, "oa__*", "crm__*"]),
    ),
    max_size=8,
).map(lambda parts: [replace(part, name=f"h{index}") for index, part in enumerate(parts)])


def expect(event: HookEvent, parts: list[Part]) -> dict[str, Any]:
    """What the contract says that a chain comes to."""
    n, result, trace, texts, blocker = 0, "r", [], [], None
    for part in sorted(parts, key=lambda part: part.priority):
        closed = (part.on_error or ("deny" if event in BLOCKING_POINTS else "allow")) == "deny"
        if part.tool_filter == "crm__*" and event in TOOL_POINTS:
            continue
        verdict = CONDITIONS[part.when](n)
        if verdict is None:
            trace.append((part.name, "condition_failed_ran" if closed else "condition_failed_skipped"))
        if not (closed if verdict is None else verdict):
            continue
        no = part.act == "deny" and event in BLOCKING_POINTS
        if part.observe:
            changes = part.act == "rewrite" and event in (HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE)
            word = "fail" if part.act in FAILURES else "deny" if no else "change" if changes else "allow"
            trace.append((part.name, f"would_{word}"))
            continue
        if part.act in FAILURES:
            trace.append((part.name, "failed_denied" if closed else "failed_allowed"))
        else:
            trace.append((part.name, "denied" if no else "ignored" if part.act == "deny" else "allowed"))
        if no or (part.act in FAILURES and closed):
            blocker = blocker or part.name
            # Where nothing can be blocked all run, whoever spoke first.
            if event in BLOCKING_POINTS:
                break
            continue
        n += part.act == "rewrite" and event is HookEvent.PRE_TOOL_USE
        result += "+" * (part.act == "rewrite" and event is HookEvent.POST_TOOL_USE)
        texts += [part.name] * (part.act == "text")
    return {"n": n, "result": result, "trace": trace, "texts": texts, "blocker": blocker}


def run(event: HookEvent, parts: list[Part], args: dict[str, Any]) -> MergedResult:
    registry = HookRegistry()
    registry.declare(
        Bound(
            hook=Player(part), name=part.name, points=Player.points, priority=part.priority, timeout=5.0,
            on_error=part.on_error, observe=part.observe,  # type: ignore[arg-type]
            matches_tool=compile_tool_filter(part.tool_filter) if part.tool_filter else None,
            condition=compile_condition(part.when) if part.when else None,
        )
        for part in parts
    )  # fmt: skip
    context = HookContext(event, tool_name="oa__pay", tool_args=args, tool_result="r", surface="chat")
    return asyncio.run(registry.run(event, context))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(HookEvent), PARTS)
def test_a_chain_comes_to_what_the_contract_says(event: HookEvent, parts: list[Part]) -> None:
    args = {"n": 0}
    merged = run(event, parts, args)
    expected = expect(event, parts)
    assert [(entry["hook"], entry["outcome"]) for entry in merged.trace] == expected["trace"]
    assert (merged.allow, merged.blocked_by) == (expected["blocker"] is None, expected["blocker"])
    assert (merged.modified_args or {"n": 0}) == {"n": expected["n"]}
    assert (merged.modified_result or "r") == expected["result"]
    assert merged.side_effects == expected["texts"]
    joined = "\n\n".join(expected["texts"]) or None
    assert (merged.additional_context, merged.system_message) == (joined, joined)
    assert merged.stop is bool(expected["texts"])
    assert args == {"n": 0}
    assert all(entry["ms"] >= 0 for entry in merged.trace)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(HookEvent), PARTS)
def test_observers_change_nothing(event: HookEvent, parts: list[Part]) -> None:
    for part in parts:
        part.observe = True
    merged = run(event, parts, {"n": 0})
    assert merged == MergedResult(trace=merged.trace)
    # `changed` names what it would have changed.
    assert all(entry["outcome"] == "would_change" for entry in merged.trace if entry["changed"])


class Before(PreToolUseHook):
    """Plays a part before a tool."""

    def __init__(self, part: Part) -> None:
        self.name, self.priority, self.on_error = part.name, part.priority, part.on_error  # type: ignore[assignment]
        self.player = Player(part)

    async def execute(self, ctx: HookContext) -> HookResult:
        return await self.player.execute(ctx)


class After(PostToolUseHook):
    """Must not run when no tool has."""

    name = "after"

    def __init__(self) -> None:
        self.saw: list[Any] = []

    async def execute(self, ctx: HookContext) -> HookResult:
        self.saw.append(ctx.tool_args)
        return HookResult()


@settings(max_examples=15, deadline=None)
@given(st.lists(PARTS, min_size=5, max_size=5), st.booleans())
def test_no_tool_runs_after_a_denial_and_people_are_asked_about_what_runs(
    chains: list[list[Part]], needs_approval: bool
) -> None:
    async def play() -> None:
        name = "oa__purchase_pay" if needs_approval else "oa__read"
        async with serve(manifest()) as (portal, runtime):
            always(portal)
            for index, parts in enumerate(chains):
                async with runtime.session("procurement", user=USER) as session:
                    # A hook in code has neither a condition nor observes.
                    plain = [Part(p.act, p.priority, p.on_error, False, None, None, p.name) for p in parts]
                    for part in plain:
                        session.hooks.register(Before(part))
                    session.hooks.register(after := After())
                    tool, call = Tool(), f"call_{index}"
                    outcome = await session.call_tool(name, {"n": 0}, execute=tool, tool_call_id=call)
                    expected = expect(HookEvent.PRE_TOOL_USE, plain)
                    ran = [{"n": expected["n"]}] * (expected["blocker"] is None)
                    assert (tool.runs, outcome.blocked_by) == (ran, expected["blocker"])
                    assert after.saw == ran
                    asked = [
                        body["tool_args"] for body in portal.seen("create") if body and body["tool_call_id"] == call
                    ]  # fmt: skip
                    assert asked == (ran if needs_approval else [])
                    names = [entry["hook"] for entry in outcome.trace]
                    if ran and needs_approval:
                        assert names.index("approval_gate") > max(
                            [names.index(part.name) for part in plain], default=-1
                        )

    asyncio.run(play())


@given(st.permutations([0, 5, 100, 899, 899]))
def test_the_gate_is_last_whatever_anybodys_priority_says(priorities: list[int]) -> None:
    parts = [
        Part("pass", priority, None, False, None, None, f"h{i}") for i, priority in enumerate(priorities)
    ]
    bounds = [Bound(Player(p), p.name, Player.points, p.priority, 5.0) for p in parts]
    gate = Bound(Player(parts[0]), "gate", Player.points, 0, None, is_gate=True)
    registry = HookRegistry()
    registry.declare([gate, *bounds])
    names = [bound.name for bound in registry.chains().at(HookEvent.PRE_TOOL_USE)]
    assert names == [part.name for part in sorted(parts, key=lambda part: part.priority)] + ["gate"]
