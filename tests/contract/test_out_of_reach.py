"""Section 5, the portal out of reach, and what survives its restart. Last: it stops the portal of the other tests."""

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hookgate import Runtime

from tests.contract.conftest import World
from tests.contract.playing import Hands, Scene, Tool, eventually, play


@pytest.fixture
def restarted(world: World) -> Iterator[World]:
    """The portal runs again afterwards, whatever the test did to it."""
    yield world
    if not world.portal.answers():
        world.portal.stop(kill=True)
        world.portal.start()


def test_a_young_registry_serves_what_needs_nobody_and_an_old_one_nothing(restarted: World) -> None:
    world, clock, tool = restarted, Hands(), Tool()

    async def scene() -> list[Any]:
        async with Scene(world, clock=clock, timeout=2) as at, at.session("procurement") as session:
            outcomes = [await session.call_tool("calculator", {}, execute=tool)]
            await asyncio.to_thread(world.portal.stop, kill=True)
            clock.ahead += 2
            outcomes.append(await session.call_tool("calculator", {}, execute=tool))
            outcomes.append(await session.call_tool("oa__pay", {}, execute=tool))
            clock.ahead += 20
            outcomes.append(await session.call_tool("calculator", {}, execute=tool))
            await asyncio.to_thread(world.portal.start)
            clock.ahead += 6
            outcomes.append(await session.call_tool("calculator", {}, execute=tool))
            return outcomes

    fresh, young, gated, old, back = play(scene())
    assert [outcome.blocked for outcome in (fresh, young, gated, old, back)] == [
        False,
        False,
        True,
        True,
        False,
    ]
    assert len(tool.ran) == 3
    assert gated.blocked_by == "approval_gate"
    assert gated.reason
    assert old.reason


def test_a_session_that_never_had_a_registry_runs_nothing(restarted: World) -> None:
    world, tool = restarted, Tool()

    async def scene() -> Any:
        async with (
            Runtime("http://127.0.0.1:9", world.issued["acme"], timeout=1) as runtime,
            runtime.session("procurement") as session,
        ):
            return await session.call_tool("calculator", {}, execute=tool)

    outcome = play(scene())
    assert (outcome.blocked, tool.ran) == (True, [])
    assert outcome.observation


@pytest.mark.parametrize(("key", "agent"), [("nobody", "procurement"), ("acme", "no-such")])
def test_a_refusal_is_not_out_of_reach(restarted: World, key: str, agent: str) -> None:
    world, tool = restarted, Tool()

    async def scene() -> Any:
        plain = world.issued.get(key, "hg_no-such-key")
        async with Runtime(world.portal.url, plain) as runtime, runtime.session(agent) as session:
            return await session.call_tool("calculator", {}, execute=tool)

    outcome = play(scene())
    assert (outcome.blocked, tool.ran) == (True, [])


def test_a_request_outlives_the_portal(restarted: World) -> None:
    events: list[Any] = []
    world, tool = restarted, Tool("paid")
    marker = uuid.uuid4().hex

    async def scene() -> Any:
        async with Scene(world) as at, at.session("procurement", on_event=events.append) as session:
            call = asyncio.create_task(session.call_tool("oa__pay", {"marker": marker}, execute=tool))
            await eventually(lambda: events)
            card = await asyncio.to_thread(world.card, marker)
            forgotten = world["acme"].asked("quiet", "oa__pay", timeout_seconds=1)
            await asyncio.to_thread(world.portal.stop, kill=True)
            await asyncio.sleep(1)
            await asyncio.to_thread(world.portal.start)
            # What ran out meanwhile has expired.
            assert world["acme"].read(forgotten)["status"] == "expired"
            assert world["bob"].respond(forgotten, "approve").json()["code"] == "expired"
            assert not call.done()
            report = await asyncio.to_thread(world.press, card, "ou_bob", "Approve")
            assert report["status"] == 200, report
            return await call

    outcome = play(scene())
    assert (outcome.blocked, outcome.result, len(tool.ran)) == (False, "paid", 1)
    cards = [
        m for m in world.sandbox.look("messages", chat_id="oc_1")["messages"] if marker in str(m["content"])
    ]
    assert len(cards) <= 1
