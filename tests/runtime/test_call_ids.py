"""Contract section 5: which texts are ids of calls and conversations, and what both sides use of a long one."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest
from hookgate import HookContext, HookResult, Outcome, PreToolUseHook, call_ids
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.documents import READ, hook, manifest
from tests.runtime.fake_portal import FakePortal
from tests.runtime.gating import always
from tests.runtime.harness import Tool, eventually, serve

LONG = "gw:" + "é" * 4569


def short(text: str) -> str:
    """The contract's words, in code of this file's own."""
    return text if len(text) <= 200 else text[:135] + "~" + hashlib.sha256(text.encode("utf-8")).hexdigest()


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_the_short_form_is_the_contracts_and_stays_as_it_is(text: str) -> None:
    assert call_ids.shorten(text) == short(text)
    assert len(call_ids.shorten(text)) <= 200
    assert call_ids.shorten(call_ids.shorten(text)) == call_ids.shorten(text)


@pytest.mark.parametrize("size", [1, 199, 200, 201, 4572, 8192])
def test_a_long_id_asks_by_its_short_form_and_is_the_models_own_to_the_program(size: int) -> None:
    call_id, conversation = "i" * size, "c" * size

    async def run() -> tuple[Outcome, FakePortal, bool]:
        async with (
            serve(manifest()) as (portal, runtime),
            runtime.session("procurement", conversation_id=conversation) as session,
        ):
            call = asyncio.create_task(
                session.call_tool("oa__purchase_pay", {"n": 1}, execute=Tool(), tool_call_id=call_id)
            )
            await portal.pending()
            cancelled = await session.cancel(call_id)
            outcome = await call
            await eventually(lambda: portal.calls)
            return outcome, portal, cancelled

    outcome, portal, cancelled = asyncio.run(run())
    assert cancelled
    assert outcome.tool_call_id == call_id
    [request], [entry] = portal.confirmations.values(), portal.calls.values()
    for said in (request, entry):
        assert (said["tool_call_id"], said["conversation_id"]) == (short(call_id), short(conversation))


def test_ids_that_differ_only_at_their_ends_are_two_calls() -> None:
    async def run() -> FakePortal:
        async with serve(manifest()) as (portal, runtime), runtime.session("procurement") as session:
            always(portal)
            for end in "ab":
                await session.call_tool(
                    "oa__purchase_pay", {"n": end}, execute=Tool(), tool_call_id="x" * 8191 + end
                )
            return portal

    assert len(asyncio.run(run()).confirmations) == 2


class Seen(PreToolUseHook):
    """Remembers what it was told of the call; it takes an id for a text, as hooks do."""

    name = "seen"

    def __init__(self) -> None:
        self.ids: list[str] = []

    async def execute(self, ctx: HookContext) -> HookResult:
        self.ids.append(ctx.metadata["tool_call_id"].strip())
        return HookResult()


BAD = [0, 5, 1.5, True, b"call_01", ["x"], {"id": "x"}, object(), "\ud800", "a\x00b", "x" * 8193]


@pytest.mark.parametrize("given_id", BAD, ids=lambda value: repr(value)[:20])
def test_an_id_that_is_none_is_said_to_be_the_id_and_breaks_no_other_hook(given_id: Any) -> None:
    async def run() -> tuple[Outcome, Seen, FakePortal, Tool]:
        document = manifest(
            tools=[READ], hooks=[hook("approval_gate"), hook("readonly_guard"), hook("audit_log")]
        )
        async with serve(document) as (portal, runtime), runtime.session("procurement") as session:
            seen, tool = Seen(), Tool()
            session.hooks.register(seen)
            outcome = await session.call_tool("oa__read", {}, execute=tool, tool_call_id=given_id)
            await eventually(lambda: portal.calls)
            return outcome, seen, portal, tool

    outcome, seen, portal, tool = asyncio.run(run())
    assert (outcome.status, outcome.blocked_by, tool.runs, seen.ids) == ("blocked", "arguments", [], [])
    assert "tool_call_id" in (outcome.reason or "")
    assert "tool_args" not in (outcome.reason or "")
    outcome.observation.encode()
    assert all(part["outcome"] == "allowed" for part in outcome.trace), outcome.trace
    [entry] = portal.calls.values()
    assert (entry["status"], len(entry["tool_call_id"]) <= 200) == ("blocked", True)


@pytest.mark.parametrize("given_id", [None, ""])
def test_without_an_id_each_call_has_a_fresh_one(given_id: Any) -> None:
    async def run() -> list[str]:
        async with serve(manifest(tools=[READ])) as (_, runtime), runtime.session("procurement") as session:
            calls = [
                await session.call_tool("oa__read", {}, execute=Tool(), tool_call_id=given_id)
                for _ in range(2)
            ]
            return [call.tool_call_id for call in calls]

    first, second = asyncio.run(run())
    assert first != second


@pytest.mark.parametrize("given_id", BAD, ids=lambda value: repr(value)[:20])
def test_a_conversation_that_has_no_id_is_said_so_at_once(given_id: Any) -> None:
    async def run() -> None:
        async with serve(manifest()) as (_, runtime):
            runtime.session("procurement", conversation_id=given_id)

    with pytest.raises(ValueError, match="conversation_id"):
        asyncio.run(run())
