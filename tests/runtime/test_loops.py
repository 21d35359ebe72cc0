"""The reference loops: every hook point is wired, parallel calls included, and a no is honoured."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hookgate import HookContext, HookEvent, HookResult
from hookgate.hook import Hook
from hookgate.loops import dag, react
from hookgate.loops.react import Message, Reply, ToolRequest

from tests.runtime.documents import READ, evaluation, hook, manifest
from tests.runtime.harness import Tool, serve

LOG = {"name": "log__read", "connector": "log", "writes": False, "requires_confirmation": False, "redact": []}


class Watch(Hook):
    """Remembers every moment of the loop, and answers what a test wants at some of them."""

    points = tuple(HookEvent)
    name = "watch"

    def __init__(self, **answers: list[HookResult]) -> None:
        self.moments: list[tuple[str, str]] = []
        self.contexts: list[HookContext] = []
        self._answers = answers

    async def execute(self, ctx: HookContext) -> HookResult:
        """The next answer for this moment."""
        self.contexts.append(ctx)
        self.moments.append((str(ctx.event), ctx.tool_name or ctx.prompt or ctx.source or ctx.error or ""))
        waiting = self._answers.get(ctx.event, [])
        return waiting.pop(0) if waiting else HookResult()


class Model:
    """Says what a test wrote down, and keeps what it was given to read."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self._replies = list(replies)
        self.read: list[list[Message]] = []

    async def __call__(self, messages: Sequence[Message]) -> Reply:
        """The next line."""
        self.read.append(list(messages))
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def pick(*names: str) -> Reply:
    """A reply that calls these tools."""
    return Reply("", tuple(ToolRequest(f"call-{at}", name, {}) for at, name in enumerate(names)))


def deny(reason: str) -> HookResult:
    """A no."""
    return HookResult(allow=False, error=reason)


def play(watch: Watch, model: Model, tools: dict[str, Any], **options: Any) -> react.Run:
    """One prompt through the loop, with ``watch`` at every hook point."""

    async def run() -> react.Run:
        async with serve(manifest()) as (_, runtime), runtime.session("procurement") as session:
            session.hooks.register(watch)
            return await react.run(session, "pay", model=model, tools=tools, **options)

    return asyncio.run(run())


def test_the_points_of_a_turn_come_in_order() -> None:
    watch, model = Watch(), Model(pick("oa__read"), Reply("done"))
    run = play(watch, model, {"oa__read": Tool("text")})
    assert (run.ended, run.text, run.reason) == ("answered", "done", None)
    assert watch.moments == [
        ("UserPromptSubmit", "pay"),
        ("PreToolUse", "oa__read"),
        ("PostToolUse", "oa__read"),
        ("Stop", ""),
        ("SessionEnd", ""),
    ]
    assert watch.contexts[3].metadata["answer"] == "done"
    assert model.read[1] == [
        {"role": "user", "content": "pay"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call-0", "name": "oa__read", "args": {}}],
        },
        {"role": "tool", "tool_call_id": "call-0", "content": "text"},
    ]


def test_a_refused_prompt_reaches_no_model() -> None:
    model = Model()
    run = play(Watch(UserPromptSubmit=[deny("not on Sundays")]), model, {})
    assert (run.ended, run.reason, model.read, run.messages) == ("refused", "not on Sundays", [], [])


def test_texts_of_hooks_reach_the_model() -> None:
    added = HookResult(additional_context="Budget: 5", system_message="Be brief")
    model = Model(Reply("ok"))
    play(Watch(UserPromptSubmit=[added]), model, {})
    assert [message["content"] for message in model.read[0]] == ["pay", "Budget: 5", "Be brief"]


def test_the_session_hooks_text_comes_first() -> None:
    async def run() -> list[Message]:
        document = manifest(hook("session_context", params={"text": "You are {agent}."}))
        model = Model(Reply("ok"))
        async with serve(document) as (_, runtime), runtime.session("procurement") as session:
            await react.run(session, "pay", model=model, tools={})
        return model.read[0]

    assert asyncio.run(run())[0] == {"role": "system", "content": "You are procurement."}


def test_tools_of_one_reply_run_at_the_same_time_each_through_its_chain() -> None:
    both = asyncio.Barrier(2)

    async def meet(args: dict[str, Any]) -> str:
        await asyncio.wait_for(both.wait(), 5)
        return "met"

    watch = Watch()
    run = play(
        watch, Model(pick("oa__read", "oa__write"), Reply("done")), {"oa__read": meet, "oa__write": meet}
    )
    assert [outcome.result for outcome in run.outcomes] == ["met", "met"]
    assert sorted(moment for moment in watch.moments if moment[0] == "PreToolUse") == [
        ("PreToolUse", "oa__read"),
        ("PreToolUse", "oa__write"),
    ]


def test_a_denied_tool_does_not_run_and_the_model_reads_why() -> None:
    tool, model = Tool(), Model(pick("oa__read"), Reply("then not"))
    watch = Watch(PreToolUse=[deny("closed")])
    run = play(watch, model, {"oa__read": tool})
    assert (tool.runs, run.outcomes[0].blocked_by) == ([], "watch")
    assert model.read[1][-1]["content"] == "Tool call oa__read was blocked by watch: closed"
    assert ("PermissionDenied", "oa__read") in watch.moments


def test_a_tool_that_fails_is_read_as_such() -> None:
    watch, model = Watch(), Model(pick("oa__read"), Reply("pity"))
    play(watch, model, {"oa__read": Tool(error=LookupError("no such order"))})
    assert "LookupError: no such order" in model.read[1][-1]["content"]
    assert ("PostToolUseFailure", "oa__read") in watch.moments


def test_nobody_is_asked_about_a_tool_that_the_program_does_not_have() -> None:
    watch, model = Watch(), Model(pick("oa__burn"), Reply("sorry"))
    run = play(watch, model, {})
    assert (run.outcomes, model.read[1][-1]["content"]) == ([], "There is no tool called oa__burn.")
    assert not [moment for moment in watch.moments if moment[0] == "PreToolUse"]


def test_a_stop_hook_keeps_the_loop_going_until_it_agrees() -> None:
    watch = Watch(Stop=[deny("write the summary first")])
    model = Model(Reply("done"), Reply("summary, done"))
    run = play(watch, model, {})
    assert (run.ended, run.text) == ("answered", "summary, done")
    assert model.read[1][-1] == {"role": "user", "content": "watch: write the summary first"}


def test_a_stop_hook_that_never_agrees_is_overruled() -> None:
    watch = Watch(Stop=[deny("more")] * 50)
    run = play(watch, Model(*[Reply("done")] * 50), {}, max_turns=50)
    assert (run.ended, run.reason) == ("used_up", "watch: more")
    assert len([moment for moment in watch.moments if moment[0] == "Stop"]) == react.MAX_STOP_DENIALS


def test_turns_are_bounded() -> None:
    tool = Tool()
    run = play(Watch(), Model(*[pick("oa__read")] * 5), {"oa__read": tool}, max_turns=3)
    assert (run.ended, run.reason, len(tool.runs)) == ("used_up", "no answer within 3 turns", 3)


def test_a_hook_may_ask_the_loop_to_end() -> None:
    tool = Tool()
    run = play(Watch(PostToolUse=[HookResult(stop=True)]), Model(pick("oa__read")), {"oa__read": tool})
    assert (run.ended, len(tool.runs)) == ("stopped", 1)


def test_a_model_that_fails_is_reported() -> None:
    watch = Watch()
    run = play(watch, Model(ConnectionError("model is down")), {})
    assert (run.ended, run.reason) == ("failed", "ConnectionError: model is down")
    assert ("StopFailure", "ConnectionError: model is down") in watch.moments


@pytest.mark.parametrize("allowed", [True, False])
def test_compaction_is_asked_for(allowed: bool) -> None:
    async def compact(messages: list[Message]) -> list[Message]:
        return messages[-1:]

    watch = Watch(PreCompact=[HookResult() if allowed else deny("keep all")] * 3)
    model = Model(pick("oa__read"), Reply("done"))
    play(watch, model, {"oa__read": Tool()}, compact=compact, compact_after=2)
    words = [moment[0] for moment in watch.moments if "Compact" in moment[0]]
    assert words == (["PreCompact", "PostCompact"] if allowed else ["PreCompact"])
    assert len(model.read[1]) == (1 if allowed else 3)


def plan(*nodes: dag.Node, tools: dict[str, Any], **options: Any) -> dict[str, dag.NodeEnd]:
    """Run a plan under two agents, the second of which reads logs alone."""

    async def run() -> dict[str, dag.NodeEnd]:
        documents = (
            manifest(surface="dag", may_delegate_to=["clerk"]),
            manifest(agent="clerk", surface="workflow", tools=[LOG], unlisted_tools="deny"),
        )
        async with (
            serve(*documents) as (_, runtime),
            runtime.session("procurement", surface="dag", conversation_id="c7") as session,
        ):
            return await dag.run(session, nodes, tools=tools, **options)

    return asyncio.run(run())


def test_a_plan_runs_in_order_and_hands_results_on() -> None:
    seen: list[Any] = []

    def add(args: dict[str, Any]) -> int:
        seen.append(args)
        return int(args["a"]) + int(args["b"])

    ends = plan(
        dag.Node("sum", "oa__write", lambda found: {"a": found["x"], "b": found["y"]}, after=("x", "y")),
        dag.Node("x", "oa__read", {"a": 1, "b": 2}),
        dag.Node("y", "oa__read", {"a": 3, "b": 4}),
        tools={"oa__read": add, "oa__write": add},
    )
    assert {name: end.status for name, end in ends.items()} == {
        "sum": "succeeded",
        "x": "succeeded",
        "y": "succeeded",
    }
    assert ends["sum"].outcome is not None
    assert (ends["sum"].outcome.result, ends["sum"].outcome.tool_call_id) == (10, "plan:sum")
    assert seen[-1] == {"a": 3, "b": 7}


def test_what_depends_on_nothing_runs_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    async def meet(args: dict[str, Any]) -> str:
        await asyncio.wait_for(both.wait(), 5)
        return "met"

    ends = plan(
        dag.Node("x", "oa__read", {}),
        dag.Node("y", "oa__write", {}),
        tools={"oa__read": meet, "oa__write": meet},
    )
    assert [end.status for end in ends.values()] == ["succeeded", "succeeded"]


def test_a_blocked_node_takes_what_follows_with_it_and_nothing_else() -> None:
    tool = Tool()
    ends = plan(
        dag.Node("bad", "oa__read", {"x": float("nan")}),
        dag.Node("after", "oa__write", {}, after=("bad",)),
        dag.Node("last", "oa__write", {}, after=("after",)),
        dag.Node("other", "oa__read", {}),
        dag.Node("wrong", "oa__read", lambda found: found["nowhere"]),
        tools={"oa__read": tool, "oa__write": tool},
    )
    assert {name: (end.status, end.reason) for name, end in ends.items()} == {
        "bad": ("blocked", f"arguments: {ends['bad'].outcome and ends['bad'].outcome.reason}"),
        "after": ("skipped", "bad blocked"),
        "last": ("skipped", "after skipped"),
        "other": ("succeeded", None),
        "wrong": ("failed", "KeyError: 'nowhere'"),
    }
    assert len(tool.runs) == 1


def test_a_node_of_another_agent_has_that_agents_registry() -> None:
    tool = Tool("line")
    ends = plan(
        dag.Node("logs", "log__read", {}, agent="clerk"),
        dag.Node("pay", "oa__write", {}, agent="clerk"),
        dag.Node("ghost", "oa__read", {}, agent="ghost"),
        tools={"log__read": tool, "oa__write": tool, "oa__read": tool},
    )
    assert ends["logs"].status == "succeeded"
    assert (ends["pay"].status, len(tool.runs)) == ("blocked", 1)
    assert (ends["pay"].reason or "").startswith("unlisted_tools:")
    assert ends["ghost"] == dag.NodeEnd("blocked", "procurement may not delegate to ghost")


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([dag.Node("x", "t", {}), dag.Node("x", "t", {})], "two nodes of the plan have the same id"),
        ([dag.Node("x", "t", {}, after=("y",))], "node x comes after y, which is not in the plan"),
        ([dag.Node("x", "u", {})], "node x calls u, which is not among the tools"),
        (
            [dag.Node("x", "t", {}, after=("y",)), dag.Node("y", "t", {}, after=("x",))],
            "the plan has a cycle",
        ),
    ],
)
def test_a_plan_that_can_not_be_run_is_refused_before_anything_has_run(
    nodes: list[dag.Node], message: str
) -> None:
    tool = Tool()
    with pytest.raises(ValueError, match=message):
        plan(*nodes, tools={"t": tool})
    assert tool.runs == []


def test_a_subagents_end_is_asked_for_once_and_its_caller_may_object() -> None:
    async def run() -> None:
        documents = (manifest(may_delegate_to=["clerk"]), manifest(agent="clerk", surface="subagent"))
        async with serve(*documents) as (_, runtime), runtime.session("procurement") as session:
            watch = Watch(SubagentStop=[deny("look again")])
            session.hooks.register(watch)
            model = Model(Reply("nothing found"), Reply("found it"))
            async with session.delegate("clerk") as child:
                found = await react.run(child, "search", model=model, tools={})
            assert (found.text, model.read[1][-1]["content"]) == ("found it", "watch: look again")
            assert watch.moments == [
                ("SubagentStart", "clerk"),
                ("SubagentStop", "clerk"),
                ("SubagentStop", "clerk"),
            ]

    asyncio.run(run())


def test_an_evaluation_plays_with_stubs() -> None:
    async def run() -> react.Run:
        real = Tool("real")
        async with serve(evaluation(tools=[READ])) as (_, runtime):
            stubs = {"oa__pay": lambda args: "pretended"}
            async with runtime.session("procurement", surface="eval", stubs=stubs) as session:
                model = Model(pick("oa__pay", "oa__read", "oa__burn"), Reply("done"))
                tools = {"oa__pay": real, "oa__read": real, "oa__burn": real}
                return await react.run(session, "pay", model=model, tools=tools)

    outcomes = asyncio.run(run()).outcomes
    assert [(outcome.result, outcome.blocked_by) for outcome in outcomes] == [
        ("pretended", None),
        ("real", None),
        (None, "eval"),
    ]
