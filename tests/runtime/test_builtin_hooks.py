"""The built-in hooks at work: call log, limits, texts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hookgate import HookContext, HookResult, PreToolUseHook

from tests.runtime.documents import attached, hook, manifest
from tests.runtime.fake_portal import FakePortal
from tests.runtime.harness import USER, Tool, eventually, serve


class Broken(PreToolUseHook):
    """Fails."""

    name = "broken"

    async def execute(self, ctx: HookContext) -> HookResult:
        raise KeyError("amount")


def entries(portal: FakePortal) -> list[dict[str, Any]]:
    return list(portal.calls.values())


def test_every_call_is_logged_whatever_ended_it() -> None:
    async def run() -> list[dict[str, Any]]:
        document = manifest(hooks=attached(audit={"redact": ["note"]}))
        async with serve(document) as (portal, runtime):
            async with runtime.session("procurement", user=USER, conversation_id="c7") as session:
                args = {"card_number": "4111", "note": "n", "Password": "p", "amount": 1}
                await session.call_tool("oa__read", args, execute=Tool("äb"))
                await session.call_tool("oa__read", {}, execute=Tool(error=ValueError("x")))
                await session.call_tool("oa__read", {"n": float("inf")}, execute=Tool())
                session.hooks.register(Broken())
                await session.call_tool("oa__read", {}, execute=Tool())
            await eventually(lambda: len(portal.calls) == 4)
            return entries(portal)

    succeeded, failed, refused, blocked = asyncio.run(run())
    assert succeeded["args"] == {
        "card_number": "4111",
        "note": "[redacted]",
        "Password": "[redacted]",
        "amount": 1,
    }
    assert (succeeded["status"], succeeded["result_bytes"], succeeded["user"]) == ("succeeded", 3, USER)
    assert succeeded["args_digest"].startswith("sha256:")
    assert succeeded["started_at"].endswith("Z")
    assert [entry["hook"] for entry in succeeded["trace"]] == ["readonly_guard", "audit_log"]
    assert (failed["status"], failed["error"]) == ("failed", "ValueError: x")
    assert (refused["status"], refused["blocked_by"]) == ("blocked", "arguments")
    assert (blocked["status"], blocked["blocked_by"]) == ("blocked", "broken")
    assert blocked["trace"][-1]["outcome"] == "failed_denied"
    contract = {
        "id", "agent", "session_id", "conversation_id", "tool_call_id", "tool_name", "user", "surface", "status",
        "blocked_by", "reason", "error", "started_at", "duration_ms", "args", "args_digest", "result_bytes",
        "confirmation_id", "registry_digest", "trace", "side_effects",
    }  # fmt: skip
    assert all(set(entry) == contract for entry in (succeeded, failed, refused, blocked))


def test_log_entries_survive_a_portal_that_is_away_and_a_bad_one_does_not_hold_up_the_others() -> None:
    async def run() -> set[str]:
        document = manifest(unlisted_tools="allow")
        async with serve(document) as (portal, runtime):
            portal.standing["calls"] = "500"
            async with runtime.session("procurement") as session:
                for name in ("oa__read", "unloggable", "oa__read"):
                    await session.call_tool(name, {}, execute=Tool())
                await eventually(lambda: len(portal.seen("calls")) > 1)
                assert portal.calls == {}
                portal.standing.clear()
                portal.fail("calls", "late-reset")
            await eventually(lambda: len(portal.calls) == 2)
            return {entry["tool_name"] for entry in entries(portal)}

    assert asyncio.run(run()) == {"oa__read"}


def test_a_full_call_log_stops_the_calls() -> None:
    async def run() -> None:
        async with serve(manifest(hooks=attached(audit={"max_queued": 100}))) as (portal, runtime):
            portal.standing["calls"] = "500"
            async with runtime.session("procurement") as session:
                tool = Tool()
                for _ in range(100):
                    assert not (await session.call_tool("oa__read", {}, execute=tool)).blocked
                outcome = await session.call_tool("oa__read", {}, execute=tool)
                assert (outcome.blocked_by, len(tool.runs)) == ("audit_log", 100)
            portal.standing.clear()

    asyncio.run(run())


def test_a_rate_limit_is_counted_by_the_portal_and_tells_when_to_try_again() -> None:
    async def run() -> None:
        limit = hook("connector_rate_limit", params={"max_calls": 2})
        async with (
            serve(manifest(limit)) as (portal, runtime),
            runtime.session("procurement", user=USER) as session,
        ):
            portal.limit = 2
            tool = Tool()
            outcomes = [await session.call_tool("oa__read", {}, execute=tool) for _ in range(3)]
            assert [item.blocked for item in outcomes] == [False, False, True]
            assert outcomes[2].reason == "at most 2 calls to oa for now; try again in 7 s"
            body = next(iter(portal.limit_calls.values()))
            assert body == {
                "agent": "procurement", "hook": limit["id"], "connector": "oa", "user": "u42", "call": body["call"],
            }  # fmt: skip

    asyncio.run(run())


@pytest.mark.parametrize(("on_error", "runs"), [("deny", 0), ("allow", 1)])
@pytest.mark.parametrize("fault", ["500", "reset", "garbage", "html", "slow"])
def test_a_hook_that_needs_the_portal_follows_its_own_on_error(on_error: str, runs: int, fault: str) -> None:
    async def run() -> None:
        document = manifest(hook("connector_rate_limit", on_error=on_error))
        async with (
            serve(document, timeout=0.2) as (portal, runtime),
            runtime.session("procurement") as session,
        ):
            portal.standing["limits"] = fault
            tool = Tool()
            outcome = await session.call_tool("oa__read", {}, execute=tool)
            assert len(tool.runs) == runs
            word = "failed_denied" if on_error == "deny" else "failed_allowed"
            assert word in [entry["outcome"] for entry in outcome.trace]
            assert session.hooks.failures["connector_rate_limit"] == runs

    asyncio.run(run())


def test_context_and_notices() -> None:
    async def run() -> None:
        document = manifest(
            hook("session_context", params={"text": "{organization}/{agent} for {user} {unknown} {"}),
            hook(
                "notify",
                params={"channel": "ops", "text": "{event} {tool}", "points": ["PostToolUse", "SessionEnd"]},
            ),
        )
        async with serve(document) as (portal, runtime):
            async with runtime.session("procurement", user=USER) as session:
                assert session.context == "acme/procurement for Kim {unknown} {"
                await session.call_tool("oa__read", {}, execute=Tool())
            assert portal.messages == [
                ("ops", {"text": "PostToolUse oa__read", "agent": "procurement"}),
                ("ops", {"text": "SessionEnd", "agent": "procurement"}),
            ]

    asyncio.run(run())


def test_texts_that_the_portal_would_refuse_do_not_cost_the_entry() -> None:
    async def run() -> list[dict[str, Any]]:
        async with serve(manifest(unlisted_tools="allow")) as (portal, runtime):
            async with runtime.session("procurement", user=USER) as session:
                await session.call_tool("x" * 300, {}, execute=Tool())
                await session.call_tool("a\x00b\ud800", {}, execute=Tool())
                await session.call_tool(
                    "oa__read", {}, execute=Tool(error=ValueError("\ud83d" + "e" * 20_000))
                )
                await session.call_tool("oa__read", {"big": "x" * 300_000}, execute=Tool("\ud800"))
            await eventually(lambda: len(portal.calls) == 4)
            return entries(portal)

    long, dirty, failed, big = asyncio.run(run())
    assert (long["status"], long["blocked_by"], long["tool_name"]) == ("blocked", "arguments", "x" * 200)
    assert (dirty["blocked_by"], dirty["tool_name"]) == ("arguments", "a\ufffdb\ufffd")
    assert (failed["status"], len(failed["error"])) == ("failed", 10_000)
    assert failed["error"].startswith("ValueError: \ufffdee")
    assert (big["status"], big["args"]) == ("succeeded", {"omitted": "300010 bytes"})


def test_an_agent_whose_entries_are_refused_holds_up_no_other() -> None:
    async def run() -> None:
        async with serve(manifest(), manifest(agent="other")) as (portal, runtime):
            portal.gone.add("procurement")
            async with runtime.session("procurement") as first, runtime.session("other") as second:
                await first.call_tool("oa__read", {}, execute=Tool())
                await second.call_tool("oa__read", {}, execute=Tool())
                await eventually(lambda: len(portal.calls) == 1)
            portal.gone.clear()
        assert sorted(entry["agent"] for entry in entries(portal)) == ["other", "procurement"]

    asyncio.run(run())
