"""The event stream: what it tells is here at once, and without it nothing is lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.runtime.documents import hook, manifest, switched
from tests.runtime.fake_portal import Problem
from tests.runtime.gating import ARGS, pay
from tests.runtime.harness import Tool, eventually, serve
from tests.runtime.streaming import ALONE, PACING, approve, run_tool, run_until, streamed, tell

GARBLED = (
    "garbage",
    "long",
    "latin",
    "cut",
    "html",
    "404",
    "401",
    "403",
    "429",
    "500",
    "503",
    "reset",
    "redirect",
)


def test_a_halt_is_here_before_the_registry_was_asked_again() -> None:
    async def run() -> None:
        async with streamed() as (portal, _, session):
            assert await run_tool(session) is None
            portal.standing["registry"] = "slow"
            asked = len(portal.seen("registry"))
            document = switched(manifest(), halted=True, reason="stop")
            portal.events.send("procurement", "state", document["state"])
            await eventually(lambda: len(portal.seen("registry")) > asked)
            assert await run_tool(session) == "halted"
            # A resumption is believed once the registry says so.
            portal.events.send("procurement", "state", manifest()["state"])
            assert await run_tool(session) == "halted"

    asyncio.run(run())


def test_the_end_of_a_halt_is_fetched_at_once() -> None:
    async def run() -> None:
        document = manifest()
        async with streamed(document) as (portal, _, session):
            halted = switched(document, halted=True, reason="stop")
            for told, blocked_by in ((halted, "halted"), (document, None), (halted, "halted")):
                portal.publish(told)
                portal.events.send("procurement", "state", told["state"])
                await run_until(session, blocked_by)

    asyncio.run(run())


def test_an_event_that_was_not_true_is_put_right_by_the_registry() -> None:
    async def run() -> None:
        async with streamed() as (portal, _, session):
            asked = len(portal.seen("registry"))
            portal.events.send("procurement", "state", switched(manifest(), halted=True)["state"])
            await eventually(lambda: len(portal.seen("registry")) > asked)
            await run_until(session, None)

    asyncio.run(run())


def test_a_new_revision_is_fetched_at_once_and_the_same_one_not_at_all() -> None:
    async def run() -> None:
        async with streamed() as (portal, runtime, session):
            assert len(portal.seen("registry")) == 1
            document = manifest(hook("result_truncate", params={"max_chars": 100}), revision=2)
            portal.publish(document)
            told = {"revision": 2, "digest": document["digest"]}
            portal.events.send("procurement", "registry", told)
            await eventually(lambda: len(portal.seen("registry")) == 2)
            source = runtime.source("procurement", "chat")
            await eventually(lambda: source.manifest and source.manifest.revision == 2)
            outcome = await session.call_tool("oa__read", {}, execute=Tool("x" * 500))
            assert len(outcome.result) <= 100, outcome
            portal.events.send("procurement", "registry", told)
            portal.events.send("procurement", "state", document["state"])
            await run_tool(session)
            assert len(portal.seen("registry")) == 2

    asyncio.run(run())


def test_a_registry_that_can_not_be_built_stops_every_open_session_at_once() -> None:
    async def run() -> None:
        async with streamed() as (portal, runtime, session), runtime.session("procurement") as other:
            portal.refusals["procurement"] = Problem(422, "registry_unbuildable")
            portal.events.send("procurement", "registry", {"revision": None, "digest": None})
            await eventually(lambda: runtime.source("procurement", "chat").stopped is not None)
            portal.refusals.clear()
            async with runtime.session("procurement") as fresh:
                assert await run_tool(fresh) is None
                assert [await run_tool(old) for old in (session, other)] == ["registry", "registry"]

    asyncio.run(run())


def test_an_answer_that_left_before_the_event_is_not_the_last_word() -> None:
    async def run() -> None:
        async with streamed() as (portal, runtime, session):
            original, answering, go_on = portal._registry, asyncio.Event(), asyncio.Event()

            async def late(*arguments: Any) -> Any:
                answer = await original(*arguments)
                answering.set()
                await go_on.wait()
                return answer

            portal._registry = late  # type: ignore[assignment, method-assign]
            runtime.source("procurement", "chat").invalidate()
            await answering.wait()
            halted = switched(manifest(), halted=True)
            portal.publish(halted)
            portal.events.send("procurement", "state", halted["state"])
            await asyncio.sleep(0.05)
            go_on.set()
            await eventually(lambda: len(portal.seen("registry")) == 3)
            assert await run_tool(session) == "halted"

    asyncio.run(run())


def test_a_decision_wakes_the_call_without_a_poll() -> None:
    async def run() -> None:
        async with streamed() as (portal, _, session):
            tool = Tool("paid")
            call = pay(session, tool)
            await portal.pending()
            await asyncio.sleep(0.05)
            assert portal.seen("wait") == []
            request_id = await approve(portal)
            tell(portal, request_id)
            assert (await call).result == "paid"
            assert len(portal.seen("wait")) == 1

    asyncio.run(run())


def test_an_event_alone_runs_nothing() -> None:
    async def run() -> None:
        async with streamed() as (portal, _, session):
            tool = Tool("paid")
            call = pay(session, tool)
            (request,) = await portal.pending()
            await asyncio.sleep(0.02)
            tell(portal, request["id"])
            await eventually(lambda: portal.seen("wait"))
            await portal.settle(request["id"], "rejected")
            tell(portal, request["id"], "rejected")
            outcome = await call
            assert (outcome.blocked_by, tool.runs) == ("approval_gate", [])
            assert (outcome.reason or "").startswith("rejected")

    asyncio.run(run())


def test_a_decision_that_is_told_before_the_request_was_answered_is_not_missed() -> None:
    async def run() -> None:
        async with streamed() as (portal, _, session):
            original = portal._create

            async def late(*arguments: Any) -> Any:
                status, resource, extra = await original(*arguments)
                pending = dict(resource)
                resource.update(status="approved")
                tell(portal, resource["id"])
                await asyncio.sleep(0.1)
                return status, pending, extra

            portal._create = late  # type: ignore[assignment, method-assign]
            tool = Tool("paid")
            async with asyncio.timeout(5):
                assert (await pay(session, tool)).result == "paid"

    asyncio.run(run())


def test_what_was_decided_while_the_stream_was_away_is_read_when_it_is_back() -> None:
    async def run() -> None:
        async with streamed(pacing=replace(ALONE, polls_at_once=0)) as (portal, runtime, session):
            tools = [Tool("paid") for _ in range(20)]
            calls = [pay(session, tool, tool_call_id=f"call_{n}") for n, tool in enumerate(tools)]
            requests = await portal.pending(len(calls))
            portal.events.kind = "503"
            portal.events.break_off()
            await eventually(lambda: not runtime.feed("procurement").healthy)
            for request in requests:
                await portal.settle(request["id"], "approved")
            portal.events.kind = "ok"
            async with asyncio.timeout(10):
                outcomes = await asyncio.gather(*calls)
            assert [outcome.result for outcome in outcomes] == ["paid"] * len(calls)
            assert [len(tool.runs) for tool in tools] == [1] * len(tools)

    asyncio.run(run())


def test_without_a_stream_few_poll_at_a_time_and_all_have_their_turn() -> None:
    async def run() -> None:
        pacing = replace(PACING, polls_at_once=3, poll_hold=3.0)
        async with streamed(kind="404", pacing=pacing) as (portal, _, session):
            original, holding, most, holds, seen = portal._wait, 0, 0, set(), set()

            async def count(match: Any, query: Any, *rest: Any) -> Any:
                nonlocal holding, most
                holding += 1
                most = max(most, holding)
                holds.add(query["wait"])
                seen.add(match.group(1))
                try:
                    return await original(match, query, *rest)
                finally:
                    holding -= 1

            portal._wait = count  # type: ignore[assignment, method-assign]
            calls = [pay(session, Tool("paid"), tool_call_id=f"call_{n}") for n in range(7)]
            requests = await portal.pending(len(calls))
            await eventually(lambda: len(seen) == len(calls), 20)
            for request in requests:
                await portal.settle(request["id"], "approved")
            async with asyncio.timeout(20):
                outcomes = await asyncio.gather(*calls)
            assert [outcome.result for outcome in outcomes] == ["paid"] * len(calls)
            assert most == 3
            # The first ones don't know yet how many will come.
            assert {"3", "1"} <= holds <= {"3", "2", "1"}

    asyncio.run(run())


def test_a_lost_event_is_made_up_for() -> None:
    async def run() -> None:
        async with streamed(pacing=replace(ALONE, read_every=0.2)) as (portal, _, session):
            call = pay(session, Tool("paid"))
            await approve(portal)
            async with asyncio.timeout(5):
                assert (await call).result == "paid"

    asyncio.run(run())


@pytest.mark.parametrize("kind", GARBLED)
def test_without_a_usable_stream_calls_go_on_by_polling(kind: str) -> None:
    async def run() -> None:
        async with streamed(kind=kind, pacing=PACING) as (portal, runtime, session):
            call = pay(session, Tool("paid"))
            await eventually(lambda: len(portal.seen("events")) >= 2)
            await approve(portal)
            async with asyncio.timeout(5):
                assert (await call).result == "paid"
            portal.events.kind = "ok"
            await eventually(lambda: runtime.feed("procurement").healthy)

    asyncio.run(run())


def test_a_silent_stream_counts_as_dead() -> None:
    async def run() -> None:
        pacing = replace(PACING, stream_silence=0.1)
        async with streamed(kind="silent", pacing=pacing) as (portal, runtime, _):
            await eventually(lambda: portal.events.opened >= 3)
            assert not runtime.feed("procurement").healthy

    asyncio.run(run())


def test_a_key_that_was_revoked_is_noticed_by_the_stream() -> None:
    async def run() -> None:
        async with streamed() as (portal, runtime, session):
            portal.keys.clear()
            portal.events.kind = "401"
            portal.events.break_off()
            source = runtime.source("procurement", "chat")
            await eventually(lambda: source.stopped is not None)
            assert await run_tool(session) == "registry"

    asyncio.run(run())


def test_one_stream_serves_all_sessions_and_ends_with_the_last() -> None:
    async def run() -> None:
        async with streamed() as (portal, runtime, _):
            async with runtime.session("procurement"), runtime.session("procurement", surface="api"):
                await asyncio.sleep(0.05)
            assert portal.events.opened == 1
            assert len(portal.events.open["procurement"]) == 1
        assert portal.events.open["procurement"] == []

    asyncio.run(run())


def test_the_stream_is_closed_when_the_last_session_is_left() -> None:
    async def run() -> None:
        async with serve(manifest(), pacing=PACING) as (portal, runtime):
            portal.events.kind = "ok"
            for round in range(2):
                async with runtime.session("procurement"):
                    await eventually(lambda: runtime.feed("procurement").healthy)
                await eventually(lambda: portal.events.open["procurement"] == [])
                assert portal.events.opened == round + 1

    asyncio.run(run())


def test_arguments_are_not_changed_by_the_way_a_decision_comes() -> None:
    async def run() -> None:
        async with streamed() as (portal, _, session):
            tool = Tool("paid")
            call = pay(session, tool)
            tell(portal, await approve(portal))
            await call
            assert tool.runs == [ARGS]

    asyncio.run(run())
