"""Events, handlers, observation, delegation, and the sync runtime."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hookgate import HookContext, HookEvent, HookResult, PreToolUseHook
from hookgate.events import BLOCKING_POINTS
from hookgate.session.delegation import DelegationRefused

from tests.runtime import handlers_for_tests
from tests.runtime.documents import evaluation, handler, hook, manifest, switched
from tests.runtime.harness import USER, Tool, eventually, serve

HERE = "tests.runtime.handlers_for_tests:"
ALLOWED = {"python_handlers": ["tests.runtime"]}


@pytest.fixture(autouse=True)
def _forget() -> None:
    handlers_for_tests.seen.clear()


@pytest.mark.parametrize("event", list(HookEvent))
def test_a_denial_counts_where_the_contract_says_so_and_is_ignored_elsewhere(event: HookEvent) -> None:
    async def run() -> None:
        async with (
            serve(manifest(handler(HERE + "deny", point=event)), **ALLOWED) as (_, runtime),
            runtime.session("procurement") as session,
        ):
            merged = await session.emit(event, tool_name="oa__read", tool_args={}, prompt="hi")
            blocks = event in BLOCKING_POINTS
            assert merged.allow is not blocks
            assert merged.error == (f"not at {event}" if blocks else None)
            words = [entry["outcome"] for entry in merged.trace if entry["hook"].startswith(event)]
            assert words == ["denied" if blocks else "ignored"]

    asyncio.run(run())


def test_handlers_run_at_their_place_with_their_matcher() -> None:
    async def run() -> None:
        document = manifest(
            handler(HERE + "cap", matcher="oa__.*"),
            handler(HERE + "redact", point="PostToolUse", matcher="oa__read|oa__list"),
        )
        async with serve(document, **ALLOWED) as (_, runtime), runtime.session("procurement") as session:
            tool = Tool("secret")
            outcome = await session.call_tool("oa__read", {"amount": 500}, execute=tool)
            assert (tool.runs, outcome.result) == ([{"amount": 100}], "[hidden]")
            assert handlers_for_tests.seen == [("cap", {"amount": 500}), ("redact", "secret")]
            assert (await session.call_tool("oa__write", {"amount": 5}, execute=tool)).result == "secret"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("target", "changes", "word", "runs"),
    [
        ("nothing", {}, "failed_denied", 0),
        ("nothing", {"on_error": "allow"}, "failed_allowed", 1),
        ("broken", {}, "failed_denied", 0),
        ("broken", {"on_error": "allow"}, "failed_allowed", 1),
        ("sleepy", {"timeout_seconds": 0.05}, "timed_out_denied", 0),
        ("sleepy", {"timeout_seconds": 0.05, "on_error": "allow"}, "timed_out_allowed", 1),
        ("deny", {}, "denied", 0),
        ("deny", {"mode": "observe"}, "would_deny", 1),
        ("cap", {"mode": "observe"}, "would_change", 1),
        ("broken", {"mode": "observe"}, "would_fail", 1),
        ("sleepy", {"mode": "observe", "timeout_seconds": 0.05}, "would_time_out", 1),
        ("deny", {"when": "args.amount > 600"}, None, 1),
        ("deny", {"when": "args.amount > 400"}, "denied", 0),
        ("deny", {"when": "args.missing > 400"}, "condition_failed_ran", 0),
        ("deny", {"when": "args.missing > 400", "on_error": "allow"}, "condition_failed_skipped", 1),
        ("deny", {"when": "args.amount"}, "condition_failed_ran", 0),
        ("deny", {"tool_filter": "OA__*"}, None, 1),
        ("deny", {"matcher": "write$"}, None, 1),
    ],
)
def test_failures_conditions_and_observation(
    target: str, changes: dict[str, Any], word: str | None, runs: int
) -> None:
    async def run() -> None:
        async with (
            serve(manifest(handler(HERE + target, **changes)), **ALLOWED) as (_, runtime),
            runtime.session("procurement") as session,
        ):
            tool = Tool()
            outcome = await session.call_tool("oa__read", {"amount": 500}, execute=tool)
            assert tool.runs == [{"amount": 500}] * runs
            words = [entry["outcome"] for entry in outcome.trace if entry["hook"].startswith("PreToolUse")]
            assert words[:1] == ([word] if word else [])

    asyncio.run(run())


def test_conditions_see_the_arguments_as_rewritten_so_far() -> None:
    async def run() -> None:
        document = manifest(
            handler(HERE + "cap", priority=400),
            handler(HERE + "deny", priority=600, when="args.amount == 100"),
        )
        async with serve(document, **ALLOWED) as (_, runtime), runtime.session("procurement") as session:
            outcome = await session.call_tool("oa__read", {"amount": 500}, execute=Tool())
            assert outcome.reason == "not at PreToolUse"

    asyncio.run(run())


def test_a_denial_fires_permission_denied_and_a_gate_permission_request() -> None:
    async def run() -> None:
        document = manifest(
            hook("notify", params={"channel": "ops", "text": "{event} {tool}: {reason}",
                                   "points": ["PermissionRequest", "PermissionDenied"]}),
        )  # fmt: skip
        async with serve(document) as (portal, runtime), runtime.session("procurement") as session:
            portal.on_create = lambda resource: resource.update(status="rejected", reason="no")
            await session.call_tool("oa__purchase_pay", {}, execute=Tool())
            assert [body["text"] for _, body in portal.messages] == [
                "PermissionRequest oa__purchase_pay:",
                "PermissionDenied oa__purchase_pay: rejected: no",
            ]

    asyncio.run(run())


def test_emit_can_not_be_used_to_pass_the_gate() -> None:
    async def run() -> None:
        document = manifest(unlisted_tools="deny")
        async with serve(document) as (portal, runtime), runtime.session("procurement") as session:
            for name, by in (
                ("oa__read", None),
                ("oa__purchase_pay", "approval_gate"),
                ("x", "unlisted_tools"),
            ):
                merged = await session.emit("PreToolUse", tool_name=name, tool_args={})
                assert (merged.allow, merged.blocked_by) == (by is None, by)
            assert portal.confirmations == {}

    asyncio.run(run())


def test_emit_merges_what_all_hooks_say() -> None:
    class Say(PreToolUseHook):
        points = (HookEvent.USER_PROMPT_SUBMIT,)

        def __init__(self, name: str, **result: Any) -> None:
            self.name, self.result = name, result

        async def execute(self, ctx: HookContext) -> HookResult:
            assert ctx.prompt == "hello"
            return HookResult(**self.result)

    async def run() -> None:
        async with serve(manifest()) as (_, runtime), runtime.session("procurement") as session:
            session.hooks.register(Say("a", additional_context="one", side_effects=["x"], system_message="m"))
            session.hooks.register(Say("b", additional_context="two", side_effects=["y"], stop=True))
            merged = await session.emit("UserPromptSubmit", prompt="hello")
            assert (merged.allow, merged.additional_context, merged.stop) == (True, "one\n\ntwo", True)
            assert (merged.side_effects, merged.system_message) == (["x", "y"], "m")

    asyncio.run(run())


def test_a_matcher_at_other_points_tests_the_source() -> None:
    async def run() -> None:
        document = manifest(handler(HERE + "deny", point="PreCompact", matcher="manual"))
        async with serve(document, **ALLOWED) as (_, runtime), runtime.session("procurement") as session:
            assert not (await session.emit("PreCompact", source="manual")).allow
            assert (await session.emit("PreCompact", source="auto")).allow

    asyncio.run(run())


def test_a_delegate_has_its_own_registry_and_its_own_gate() -> None:
    async def run() -> None:
        parent = manifest(handler(HERE + "deny", tool_filter="oa__read"), may_delegate_to=["researcher"])
        child_document = manifest(
            hook("session_context", params={"text": "{agent}"}), agent="researcher", unlisted_tools="confirm"
        )
        async with (
            serve(parent, child_document, **ALLOWED) as (portal, runtime),
            runtime.session("procurement", user=USER, conversation_id="c7") as session,
        ):
            async with session.delegate("researcher") as child:
                assert (child.surface, child.context, child.conversation_id) == (
                    "subagent",
                    "researcher",
                    "c7",
                )
                assert not (await child.call_tool("oa__read", {}, execute=Tool())).blocked
                tool = Tool()
                portal.on_create = lambda resource: resource.update(status="rejected")
                assert (
                    await child.call_tool("oa__purchase_pay", {}, execute=tool)
                ).blocked_by == "approval_gate"
                assert tool.runs == []
                (asked,) = portal.seen("create")
                assert asked is not None
                assert (asked["agent"], asked["initiator"]) == ("researcher", USER)
            with pytest.raises(DelegationRefused, match="may not delegate to stranger"):
                async with session.delegate("stranger"):
                    pass

    asyncio.run(run())


def test_what_an_approved_tool_delegates_is_asked_for_on_its_behalf() -> None:
    async def run() -> None:
        document = manifest(may_delegate_to=["procurement"])
        async with serve(document) as (portal, runtime), runtime.session("procurement") as session:
            portal.on_create = lambda resource: resource.update(status="approved")

            async def ask_colleague(args: dict[str, Any]) -> str:
                async with session.delegate("procurement") as child:
                    return (await child.call_tool("oa__purchase_pay", {}, execute=Tool("paid"))).observation

            outcome = await session.call_tool("oa__purchase_pay", {"n": 1}, execute=ask_colleague)
            assert outcome.result == "paid"
            parents = [body["parent"] for body in portal.seen("create") if body]
            assert parents == [None, outcome.confirmation_id]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": {}}, "user.id is missing"),
        ({"user": {"id": "1", "phone": "2"}}, "user.phone is not a field"),
        ({"user": {"id": "x" * 201}}, "user.id must be"),
        ({"user": {"id": "\ud800"}}, "user.id"),
        ({"conversation_id": "x" * 8193}, "conversation_id: must be"),
        ({"surface": "web"}, "surface must be one of"),
    ],
)
def test_bad_session_options_are_named(options: dict[str, Any], message: str) -> None:
    async def run() -> None:
        async with serve(manifest()) as (_, runtime):
            with pytest.raises(ValueError, match=message):
                runtime.session("procurement", **options)
            session = runtime.session("procurement", user={"email": "kim@acme.test"})
            assert session.initiator == {"id": "kim@acme.test", "name": None, "email": "kim@acme.test"}
            assert runtime.session("procurement", user={"id": 7}).user_id == "7"

    asyncio.run(run())


def test_a_delegate_without_a_registry_does_not_run_and_depth_is_bounded() -> None:
    async def run() -> None:
        async with (
            serve(manifest(may_delegate_to=["procurement", "ghost"])) as (_, runtime),
            runtime.session("procurement") as session,
        ):
            with pytest.raises(DelegationRefused, match="404"):
                async with session.delegate("ghost"):
                    pass
            current = session
            opened = []
            for _ in range(5):
                opened.append(current.delegate("procurement"))
                current = await opened[-1].__aenter__()
            with pytest.raises(DelegationRefused, match="at most 5 deep"):
                async with current.delegate("procurement"):
                    pass
            for delegation in reversed(opened):
                await delegation.__aexit__(None, None, None)

    asyncio.run(run())


def test_a_delegate_of_an_evaluation_asks_nobody_either_and_a_halted_agent_delegates_nothing() -> None:
    async def run() -> None:
        document = evaluation(may_delegate_to=["procurement"])
        async with serve(document) as (portal, runtime):
            async with (
                runtime.session("procurement", surface="eval") as session,
                session.delegate("procurement") as child,
            ):
                assert child.surface == "eval"
                assert (await child.call_tool("oa__purchase_pay", {}, execute=Tool())).blocked_by == "eval"
            portal.publish(switched(manifest(may_delegate_to=["procurement"]), halted=True))
            async with runtime.session("procurement") as session:
                with pytest.raises(DelegationRefused, match="halted"):
                    async with session.delegate("procurement"):
                        pass

    asyncio.run(run())


def test_on_event_may_fail_or_be_async_without_touching_the_call() -> None:
    async def run() -> None:
        async with serve(manifest(unlisted_tools="deny")) as (_, runtime):
            heard: list[dict[str, Any]] = []

            async def show(event: dict[str, Any]) -> None:
                heard.append(event)
                raise RuntimeError("display gone")

            async with runtime.session("procurement", on_event=show) as session:
                outcome = await session.call_tool("x", {}, execute=Tool(), tool_call_id="t1")
                assert outcome.blocked_by == "unlisted_tools"
                assert heard == [
                    {"type": "blocked", "tool_call_id": "t1", "tool_name": "x", "hook": "unlisted_tools",
                     "reason": "no connector and no tools entry names x"}
                ]  # fmt: skip

    asyncio.run(run())


def test_registering_refuses_what_can_not_run() -> None:
    async def run() -> None:
        async with serve(manifest()) as (_, runtime), runtime.session("procurement") as session:
            with pytest.raises(TypeError, match="is not a Hook"):
                session.hooks.register(object())  # type: ignore[arg-type]
            names = [item.name for item in session.hooks.hooks("PreToolUse")]
            assert names == ["readonly_guard", "audit_log", "approval_gate"]
            assert not session.hooks.unregister("approval_gate")
            with pytest.raises(TypeError, match="execute must be a function"):
                await session.call_tool("oa__read", {}, execute=None)  # type: ignore[arg-type]

    asyncio.run(run())


def test_results_are_shortened_for_the_model_and_the_log_counts_what_it_got() -> None:
    async def run() -> None:
        document = manifest(hook("result_truncate", params={"max_chars": 200}))
        async with serve(document) as (portal, runtime):
            async with runtime.session("procurement") as session:
                outcome = await session.call_tool("oa__read", {}, execute=Tool("é" * 1000))
                assert len(outcome.observation) <= 200
                assert outcome.trace[-1] == {
                    **outcome.trace[-1],
                    "hook": "result_truncate",
                    "changed": ["result"],
                }
            await eventually(lambda: len(portal.calls) == 1)

    asyncio.run(run())
