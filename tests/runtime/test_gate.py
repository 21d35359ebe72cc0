"""The gate: asking, waiting, consuming, reporting, and every way in which a call must not run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hookgate import HookContext, HookResult, Outcome, PreToolUseHook, Runtime

from tests.runtime.documents import READ, attached, manifest, switched
from tests.runtime.fake_portal import KEY, digest
from tests.runtime.gating import ARGS, always, gated, pay
from tests.runtime.harness import FAST, USER, Tool, eventually, serve


def test_an_approved_payment_runs_once_and_its_outcome_is_reported() -> None:
    async def run() -> None:
        async with serve(manifest()) as (portal, runtime):
            events: list[dict[str, Any]] = []
            tool = Tool("paid")
            async with runtime.session(
                "procurement", user=USER, conversation_id="c7", on_event=events.append
            ) as session:
                task = pay(session, tool, summary="Chairs")
                (request,) = await portal.pending()
                assert tool.runs == []
                await portal.settle(request["id"], "approved")
                outcome = await task
            assert (outcome.result, outcome.confirmation_id, tool.runs) == ("paid", request["id"], [ARGS])
            await eventually(lambda: request["outcome"] == "succeeded")
            assert events == [
                {
                    "type": "awaiting_confirmation",
                    "id": request["id"],
                    "url": f"{portal.url}/inbox/{request['id']}/",
                    "expires_at": request["expires_at"],
                },
                {"type": "confirmation_resolved", "id": request["id"], "status": "approved", "reason": None},
            ]
            (asked,) = portal.seen("create")
            assert asked == {
                "agent": "procurement", "conversation_id": "c7", "tool_call_id": "call_01",
                "tool_name": "oa__purchase_pay", "tool_args": ARGS, "hook": "approval_gate",
                "registry_digest": portal.registries[("procurement", "chat")]["digest"], "initiator": USER,
                "summary": "Chairs", "channel": None, "policy": None, "parent": None,
            }  # fmt: skip
            (consumed,) = portal.seen("consume")
            assert consumed is not None
            assert consumed["args_digest"] == digest(ARGS)
            assert all(headers["hookgate-runtime"] == "worker-1" for _, _, headers in portal.requests)
            await eventually(lambda: len(portal.calls) == 1)
            assert next(iter(portal.calls.values()))["confirmation_id"] == request["id"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "changes", "reason"),
    [
        ("rejected", {"reason": "too dear"}, "rejected: too dear"),
        (
            "rejected",
            {"decisions": [{"decision": "reject", "user": "bob", "reason": "no"}]},
            "rejected by bob: no",
        ),
        ("rejected", {}, "rejected"),
        ("expired", {}, "nobody decided in time (expired)"),
        ("cancelled", {}, "the request was cancelled (cancelled)"),
        (
            "undeliverable",
            {"reason": "bot not in chat"},
            "nobody could be reached (undeliverable): bot not in chat",
        ),
    ],
)
def test_every_other_end_blocks_and_tells_the_model_why(
    status: str, changes: dict[str, Any], reason: str
) -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            task = pay(session, tool)
            (request,) = await portal.pending()
            await portal.settle(request["id"], status, **changes)
            outcome = await task
            assert (outcome.blocked_by, outcome.reason, tool.runs) == ("approval_gate", reason, [])
            assert outcome.observation == f"Tool call oa__purchase_pay was blocked by approval_gate: {reason}"
            assert portal.seen("consume") == []

    asyncio.run(run())


@pytest.mark.parametrize(
    ("document", "name", "args", "fires"),
    [
        (manifest(), "oa__read", {}, False),
        (manifest(), "oa__purchase_pay", {}, True),
        (manifest(require_confirmation_for_all=True), "oa__read", {}, True),
        (manifest(unlisted_tools="confirm"), "mystery", {}, True),
        (manifest(unlisted_tools="allow"), "mystery", {}, False),
    ],
)
def test_when_the_gate_fires(document: dict[str, Any], name: str, args: dict[str, Any], fires: bool) -> None:
    async def run() -> None:
        async with gated(document) as (portal, session, tool):
            always(portal)
            outcome = await session.call_tool(name, args, execute=tool)
            assert len(tool.runs) == 1
            assert len(portal.confirmations) == fires
            assert (outcome.confirmation_id is not None) is fires

    asyncio.run(run())


TRIGGERS = [
    {"tool_filter": "crm__*", "when": None, "policy": "crm", "channel": "crm-room"},
    {"tool_filter": "oa__*", "when": "args.amount >= 50000", "policy": "big", "channel": None},
    {
        "name": "slack_gate",
        "tool_filter": None,
        "when": "args.amount >= 70000",
        "policy": "huge",
        "channel": "board",
    },
    {"name": "feishu_gate", "tool_filter": None, "when": None, "policy": "rest", "channel": "fallback"},
]


@pytest.mark.parametrize(
    ("name", "args", "asked"),
    [
        ("oa__read", {"amount": 49999.5}, None),
        ("oa__read", {"amount": 50000}, {"policy": "big", "channel": "fallback"}),
        ("oa__read", {"amount": 70000}, {"policy": "big", "channel": "board"}),
        ("oa__read", {}, {"policy": "big", "channel": "board"}),
        ("oa__purchase_pay", {"amount": 1}, {"policy": "rest", "channel": "fallback"}),
    ],
)
def test_declared_entries_add_triggers_a_policy_and_a_channel(
    name: str, args: dict[str, Any], asked: dict[str, Any] | None
) -> None:
    async def run() -> None:
        gate = {"params": {"triggers": TRIGGERS}}
        async with gated(manifest(hooks=attached(gate=gate))) as (portal, session, tool):
            always(portal)
            await session.call_tool(name, args, execute=tool)
            bodies = [
                {key: body[key] for key in ("policy", "channel")} for body in portal.seen("create") if body
            ]
            assert bodies == ([asked] if asked else [])

    asyncio.run(run())


class Rewrite(PreToolUseHook):
    """Sets the amount wherever it is not that yet."""

    def __init__(self, amount: int, priority: int = 100) -> None:
        self.name, self.amount, self.priority = "rewrite", amount, priority

    async def execute(self, ctx: HookContext) -> HookResult:
        return HookResult(modified_args={**ctx.tool_args, "amount": self.amount})


def test_people_see_and_consume_gets_the_arguments_as_the_hooks_left_them() -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            always(portal)
            session.hooks.register(Rewrite(7, priority=10_000))
            outcome = await pay(session, tool)
            assert [body and body["tool_args"] for body in portal.seen("create")] == [{"amount": 7}]
            assert [body and body["args_digest"] for body in portal.seen("consume")] == [
                digest({"amount": 7})
            ]
            assert tool.runs == [{"amount": 7}]
            assert outcome.trace[-1]["hook"] == "approval_gate"

    asyncio.run(run())


def edited(args: Any) -> dict[str, Any]:
    return {"approved_args": args, "args_digest": digest(args)}


def test_arguments_that_an_approver_changed_pass_the_other_hooks_again_and_run() -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            always(portal, **edited({"amount": 5}))
            seen: list[int] = []

            class Look(PreToolUseHook):
                async def execute(self, ctx: HookContext) -> HookResult:
                    seen.append(ctx.tool_args["amount"])
                    return HookResult()

            session.hooks.register(Look())
            outcome = await pay(session, tool)
            assert (seen, tool.runs, outcome.args) == ([60000, 5], [{"amount": 5}], {"amount": 5})
            assert [body and body["args_digest"] for body in portal.seen("consume")] == [
                digest({"amount": 5})
            ]

    asyncio.run(run())


def test_a_hook_that_denies_or_rewrites_the_changed_arguments_blocks() -> None:
    class Small(PreToolUseHook):
        name = "small"

        async def execute(self, ctx: HookContext) -> HookResult:
            return HookResult(allow=ctx.tool_args["amount"] > 10, error="too small")

    async def run(hook: PreToolUseHook) -> Outcome:
        async with gated() as (portal, session, tool):
            always(portal, **edited({"amount": 5}))
            session.hooks.register(hook)
            outcome = await pay(session, tool)
            assert tool.runs == []
            assert portal.seen("consume") == []
            return outcome

    assert asyncio.run(run(Small())).reason == "too small"
    rewritten = asyncio.run(run(Rewrite(60000)))
    assert (rewritten.blocked_by, rewritten.reason) == (
        "approval_gate", "a hook rewrites the arguments that people approved",
    )  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"approved_args": {"amount": 1}},
        {"args_digest": "sha256:0"},
        {"requested_digest": "sha256:0"},
        {"approved_args": [1], "args_digest": digest([1])},
    ],
)
def test_a_resource_that_does_not_fit_together_runs_nothing(changes: dict[str, Any]) -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            always(portal, **changes)
            assert (await pay(session, tool)).blocked
            assert (tool.runs, portal.seen("consume")) == ([], [])

    asyncio.run(run())


def test_only_one_of_two_runtimes_runs_a_call_that_both_asked_for() -> None:
    async def run() -> None:
        async with (
            gated() as (portal, session, tool),
            Runtime(portal.url, KEY, pacing=FAST) as other,
            other.session("procurement", user=USER, conversation_id="c7") as twin,
        ):
            tasks = [pay(session, tool), pay(twin, tool)]
            (request,) = await portal.pending()
            await eventually(lambda: len(portal.seen("create")) == 2)
            await portal.settle(request["id"], "approved")
            outcomes = await asyncio.gather(*tasks)
        assert (len(portal.confirmations), len(tool.runs)) == (1, 1)
        (blocked,) = [outcome for outcome in outcomes if outcome.blocked]
        assert blocked.reason is not None
        assert "already ran or is running" in blocked.reason

    asyncio.run(run())


def test_a_request_that_was_consumed_before_a_restart_is_not_run_again() -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            always(portal, consumed_at="2026-01-01T00:00:00Z", outcome="unknown")
            outcome = await pay(session, tool)
            assert tool.runs == []
            assert outcome.reason is not None
            assert "not run again (outcome: unknown)" in outcome.reason

    asyncio.run(run())


def test_a_halt_between_approval_and_consume_holds() -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            task = pay(session, tool)
            (request,) = await portal.pending()
            portal.publish(switched(portal.registries[("procurement", "chat")], halted=True))
            await portal.settle(request["id"], "approved")
            outcome = await task
            assert (outcome.reason, tool.runs) == ("the agent is halted", [])

    asyncio.run(run())


def test_a_changed_call_under_the_same_id_is_a_conflict_and_does_not_run() -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            always(portal)
            await pay(session, tool)
            outcome = await session.call_tool(
                "oa__purchase_pay", {"amount": 1}, execute=tool, tool_call_id="call_01"
            )
            assert tool.runs == [ARGS]
            assert outcome.reason is not None
            assert "tool_call_conflict" in outcome.reason

    asyncio.run(run())


def test_a_tool_that_fails_after_approval_is_reported_as_failed() -> None:
    async def run() -> None:
        async with gated() as (portal, session, _):
            always(portal)
            outcome = await pay(session, Tool(error=ValueError("declined")))
            assert (outcome.status, outcome.blocked) == ("failed", False)
            (request,) = portal.confirmations.values()
            await eventually(lambda: request["outcome"] == "failed")

    asyncio.run(run())


def test_a_hundred_calls_at_once_wait_beside_calls_that_need_nobody() -> None:
    async def run() -> None:
        document = manifest(tools=[READ])
        async with gated(document, timeout=20.0, pacing=replace(FAST, poll_hold=20.0)) as (
            portal,
            session,
            tool,
        ):
            tasks = [
                asyncio.create_task(session.call_tool("pay", {"n": n}, execute=tool)) for n in range(100)
            ]
            requests = await portal.pending(100)
            assert not (await session.call_tool("oa__read", {}, execute=Tool())).blocked
            assert tool.runs == []
            for request in requests:
                verdict = "approved" if request["tool_args"]["n"] % 2 else "rejected"
                request.update(status=verdict)
            async with portal._changed:
                portal._changed.notify_all()
            outcomes = await asyncio.gather(*tasks)
            assert sorted(args["n"] for args in tool.runs) == list(range(1, 100, 2))
            assert [outcome.blocked for outcome in outcomes] == [n % 2 == 0 for n in range(100)]

    asyncio.run(run())
