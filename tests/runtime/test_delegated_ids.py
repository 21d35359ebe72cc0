"""Contract section 5: the calls of delegates have ids of their own, which a restart finds again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hookgate import SyncRuntime, call_ids
from hookgate.loops import dag
from hookgate.session.delegation import DelegationRefused
from hookgate.session.session import Session

from tests.runtime.documents import PAY, READ, manifest
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.gating import always
from tests.runtime.harness import FAST, USER, Tool, serve

LEAD = manifest(tools=[READ, PAY], may_delegate_to=["researcher", "clerk"])
RESEARCHER = manifest(agent="researcher", surface="subagent", may_delegate_to=["clerk"])
CLERK = manifest(agent="clerk")


@contextlib.asynccontextmanager
async def leading(portal: FakePortal | None = None) -> AsyncIterator[tuple[FakePortal, Session]]:
    """A session that may delegate; whatever is asked is approved at once."""
    async with (
        serve(LEAD, RESEARCHER, CLERK) as (served, runtime),
        runtime.session("procurement", user=USER, conversation_id="c7") as session,
    ):
        if portal is not None:
            served.confirmations = portal.confirmations
        always(served)
        yield served, session


async def pay(session: Session, call_id: str = "call_0", tool: Any = None) -> str:
    outcome = await session.call_tool(
        "oa__purchase_pay", {"n": 1}, execute=tool or Tool(), tool_call_id=call_id
    )
    return str(outcome.status)


def ids(portal: FakePortal) -> list[str]:
    return [item["tool_call_id"] for item in portal.confirmations.values()]


def play(work: Callable[[Session], Any], portal: FakePortal | None = None) -> list[str]:
    """The ids under which people were asked."""

    async def run() -> list[str]:
        async with leading(portal) as (served, session):
            await work(session)
        return ids(served)

    return asyncio.run(run())


def test_delegates_one_after_the_other_count() -> None:
    async def work(session: Session) -> None:
        for agent in ("researcher", "researcher", "clerk"):
            async with session.delegate(agent) as child:
                assert await pay(child) == "succeeded"

    # clerk and researcher ask for themselves: ids are per agent.
    assert play(work) == ["0/call_0", "1/call_0", "0/call_0"]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("left", "left"),
        ("a/b", "a%2Fb"),
        ("a~b", "a%7Eb"),
        ("a%2Fb", "a%2Fb"),
        ("~/", "%7E%2F"),
        ("名", "名"),
    ],
)
def test_a_name_is_the_path(name: str, path: str) -> None:
    async def work(session: Session) -> None:
        async with session.delegate("researcher", name=name) as child:
            assert await pay(child, "x/y~z") == "succeeded"

    assert play(work) == [f"{path}/x/y~z"]


def test_within_a_call_the_calls_id_is_the_path() -> None:
    async def work(session: Session) -> None:
        async def tool(args: Any) -> None:
            async with session.delegate("researcher") as child:
                assert await pay(child) == "succeeded"

        for call_id in ("call_7", "7/~"):
            await session.call_tool("oa__read", {}, execute=tool, tool_call_id=call_id)

    assert play(work) == ["call_7/call_0", "7%2F%7E/call_0"]


@pytest.mark.parametrize("names", [(None, None), ("a", "b"), (None, "b")])
def test_two_within_one_call_share_nothing(names: tuple[str | None, str | None]) -> None:
    async def work(session: Session) -> None:
        both = asyncio.Barrier(2)

        async def research(name: str | None) -> None:
            async with session.delegate("researcher", name=name) as child:
                await both.wait()
                assert await pay(child) == "succeeded"

        async def tool(args: Any) -> None:
            await asyncio.gather(*map(research, names))

        outcome = await session.call_tool("oa__read", {}, execute=tool, tool_call_id="call_7")
        assert outcome.status == "succeeded", outcome.observation

    first = play(work)
    assert len(set(first)) == 2
    assert all(call_ids.without_path(one) == "call_0" for one in first)
    assert sorted(play(work)) == sorted(first)


def test_two_at_a_time_outside_a_call_need_names() -> None:
    async def work(session: Session) -> None:
        async with session.delegate("researcher") as first, session.delegate("clerk") as other:
            with pytest.raises(DelegationRefused, match="name"):
                async with session.delegate("researcher"):
                    pass
            async with session.delegate("researcher", name="second") as second:
                with pytest.raises(DelegationRefused, match="name"):
                    async with session.delegate("researcher", name="second"):
                        pass
                assert [await pay(one) for one in (first, other, second)] == ["succeeded"] * 3
        async with session.delegate("researcher") as third:
            assert await pay(third) == "succeeded"

    assert play(work) == ["0/call_0", "0/call_0", "second/call_0", "2/call_0"]


def test_a_delegate_that_could_not_be_opened_does_not_count() -> None:
    async def run() -> list[str]:
        async with leading() as (portal, session):
            document = portal.registries.pop(("researcher", "subagent"))
            with pytest.raises(DelegationRefused):
                async with session.delegate("researcher"):
                    pass
            portal.publish(document)
            async with session.delegate("researcher") as child:
                await pay(child)
            return ids(portal)

    assert asyncio.run(run()) == ["0/call_0"]


def test_delegates_of_delegates_share_nothing_either() -> None:
    async def work(session: Session) -> None:
        for _ in range(2):
            async with session.delegate("researcher") as child, child.delegate("clerk") as grandchild:
                assert await pay(grandchild) == "succeeded"

    assert play(work) == ["0%2F0/call_0", "1%2F0/call_0"]


def test_a_long_path_and_id_are_one_long_id() -> None:
    name = "n" * 150

    async def work(session: Session) -> None:
        async with session.delegate("researcher", name=name) as child:
            assert await pay(child, "i" * 150) == "succeeded"

    assert play(work) == [call_ids.shorten(f"{name}/{'i' * 150}")]


@pytest.mark.parametrize("name", ["", 5, b"x", "\ud800", "a\x00", "x" * 8193])
def test_a_name_that_is_none_is_said_so(name: Any) -> None:
    async def work(session: Session) -> None:
        with pytest.raises(ValueError, match="name"):
            session.delegate("researcher", name=name)

    assert play(work) == []


def test_a_restart_takes_up_what_the_delegate_had_asked() -> None:
    async def work(session: Session) -> None:
        async with session.delegate("researcher") as child:
            await pay(child)
        async with session.delegate("researcher", name="b") as child:
            await pay(child)

    async def run() -> tuple[list[str], list[str], int]:
        tool = Tool()
        async with leading() as (portal, session):
            portal.on_create = None
            async with session.delegate("researcher") as child:
                call = asyncio.create_task(pay(child, tool=tool))
                await portal.pending()
                child.leave()
                await call
            before = ids(portal)
        async with leading(portal) as (again, session):
            for resource in again.confirmations.values():
                resource.update(status="approved")
            async with session.delegate("researcher") as child:
                await pay(child, tool=tool)
            return before, ids(again), len(tool.runs)

    assert asyncio.run(run()) == (["0/call_0"], ["0/call_0"], 1)


def test_nodes_of_a_plan_that_run_at_once_have_ids_of_their_own() -> None:
    async def work(session: Session) -> None:
        nodes = [dag.Node(name, "oa__purchase_pay", {"n": 1}, agent="clerk") for name in ("a", "b")]
        ends = await dag.run(session, nodes, tools={"oa__purchase_pay": Tool()})
        assert {end.status for end in ends.values()} == {"succeeded"}, ends

    assert sorted(play(work)) == ["plan:a/plan:a", "plan:b/plan:b"]


def test_a_plain_tool_of_a_program_without_asyncio_delegates_for_its_call() -> None:
    async def run() -> list[Any]:
        async with FakePortal() as portal:
            for document in (LEAD, RESEARCHER, CLERK):
                portal.publish(document)
            always(portal)
            await asyncio.to_thread(program, portal.url)
            return [(item["tool_call_id"], body["parent"])
                    for item, body in zip(portal.confirmations.values(), portal.seen("create"), strict=True)
                    if body is not None]  # fmt: skip

    def program(url: str) -> None:
        with SyncRuntime(url, KEY, pacing=FAST) as runtime, runtime.session("procurement") as session:

            def tool(args: Any) -> str:
                with session.delegate("researcher") as child:
                    done = child.call_tool(
                        "oa__purchase_pay", {"n": 1}, execute=lambda args: "paid", tool_call_id="call_0"
                    )
                    return str(done.status)

            outcome = session.call_tool("oa__purchase_pay", {"n": 1}, execute=tool, tool_call_id="call_9")
            assert outcome.result == "succeeded", outcome.observation

    (lead, none), (child, parent) = asyncio.run(run())
    assert (lead, none, child) == ("call_9", None, "call_9/call_0")
    assert parent is not None
