"""``mode: observe`` on built-in hooks, and notices that hold nobody up."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.runtime.documents import hook, manifest
from tests.runtime.harness import Tool, eventually, serve

NOTICE = {"channel": "ops", "text": "{event}", "points": ["PreToolUse"]}


@pytest.mark.parametrize(
    ("observer", "word"),
    [
        (hook("connector_rate_limit", mode="observe", params={"max_calls": 1}), "would_deny"),
        (hook("result_truncate", mode="observe", params={"max_chars": 100}), "would_change"),
        (hook("notify", mode="observe", params=NOTICE), "would_allow"),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else value,
)
def test_an_observing_built_in_hook_changes_and_sends_nothing(observer: dict[str, Any], word: str) -> None:
    async def run() -> None:
        async with serve(manifest(observer)) as (portal, runtime), runtime.session("procurement") as session:
            portal.limit = 1
            for _ in range(2):
                outcome = await session.call_tool("oa__read", {}, execute=(tool := Tool("x" * 500)))
            assert (tool.runs, outcome.result, outcome.side_effects) == ([{}], "x" * 500, [])
            assert [part["outcome"] for part in outcome.trace if part["hook"] == observer["name"]] == [word]
            assert portal.messages == []
            # It counts for itself alone, under its own id: else its verdict would be none.
            assert {body["hook"] for body in portal.limit_calls.values()} <= {observer["id"]}

    asyncio.run(run())


def test_an_observed_text_does_not_reach_the_first_prompt() -> None:
    async def run() -> None:
        document = manifest(hook("session_context", mode="observe"))
        async with serve(document) as (_, runtime), runtime.session("procurement") as session:
            assert session.context == ""

    asyncio.run(run())


@pytest.mark.parametrize(("on_error", "blocked"), [("allow", False), ("deny", True)])
def test_a_slow_portal_holds_up_only_a_call_that_depends_on_its_notice(on_error: str, blocked: bool) -> None:
    async def run() -> None:
        document = manifest(hook("notify", on_error=on_error, params=NOTICE, timeout_seconds=2))
        async with (
            serve(document, timeout=30.0) as (portal, runtime),
            runtime.session("procurement") as session,
        ):
            portal.faults["notify"] = ["slow"]
            started = time.monotonic()
            outcome = await session.call_tool("oa__read", {}, execute=(tool := Tool()))
            # The portal takes 5 s for it.
            assert time.monotonic() - started < 4.5
            assert (outcome.blocked, len(tool.runs)) == (blocked, not blocked)
            if not blocked:
                assert outcome.side_effects == ["notify: notice to ops, on its way"]
                await eventually(lambda: portal.seen("notify"))

    asyncio.run(run())


@pytest.mark.parametrize("fault", ["429", "500", "reset"])
def test_a_notice_that_the_portal_does_not_take_is_traced_and_the_call_goes_on(fault: str) -> None:
    async def run() -> None:
        document = manifest(hook("notify", params=NOTICE))
        async with serve(document) as (portal, runtime), runtime.session("procurement") as session:
            portal.standing["notify"] = fault
            outcome = await session.call_tool("oa__read", {}, execute=(tool := Tool()))
            assert len(tool.runs) == 1
            words = [part["outcome"] for part in outcome.trace if part["hook"] == "notify"]
            assert (words, session.hooks.failures["notify"]) == (["failed_allowed"], 1)

    asyncio.run(run())
