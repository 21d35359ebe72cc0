"""A model that numbers its calls anew in each turn gets each of them made, and a replay takes them up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hookgate.loops import react
from hookgate.loops.react import Reply, ToolRequest
from hookgate.session.session import Session

from tests.runtime.documents import manifest
from tests.runtime.fake_portal import FakePortal
from tests.runtime.gating import always
from tests.runtime.harness import Tool, serve

PAY = "oa__purchase_pay"


class Numbering:
    """Calls `call_0` in each of its turns, with the same arguments."""

    def __init__(self, turns: int = 2, own: Any = "call_0", at_once: int = 1) -> None:
        self._left = turns
        self._calls = tuple(ToolRequest(own, PAY, {"n": 1}) for _ in range(at_once))
        self.read: Sequence[Any] = ()

    async def __call__(self, messages: Sequence[Any]) -> Reply:
        self.read = list(messages)
        self._left -= 1
        return Reply("", self._calls) if self._left >= 0 else Reply("done")


def ids(portal: FakePortal) -> list[str]:
    return [item["tool_call_id"] for item in portal.confirmations.values()]


async def play(session: Session, prompt: str = "go", **options: Any) -> tuple[Tool, Numbering]:
    tool, model = Tool("paid"), options.pop("model", None) or Numbering()
    await react.run(session, prompt, model=model, tools={PAY: tool}, **options)
    return tool, model


def test_each_turns_call_is_its_own_and_the_messages_keep_the_models_id() -> None:
    async def run() -> None:
        async with serve(manifest()) as (portal, runtime), runtime.session("procurement") as session:
            always(portal)
            tool, model = await play(session, model=Numbering(turns=3))
            assert len(tool.runs) == 3
            assert ids(portal) == ["call_0", "call_0#2", "call_0#3"]
            assert {message["tool_call_id"] for message in model.read if message["role"] == "tool"} == {
                "call_0"
            }

    asyncio.run(run())


@pytest.mark.parametrize("own", [None, "", "call_0", "x" * 8192])
def test_two_of_one_reply_are_two_calls_whatever_their_id(own: Any) -> None:
    async def run() -> int:
        async with serve(manifest()) as (portal, runtime), runtime.session("procurement") as session:
            always(portal)
            tool, _ = await play(session, model=Numbering(turns=2, own=own, at_once=2))
            assert len(set(ids(portal))) == 4
            return len(tool.runs)

    assert asyncio.run(run()) == 4


def test_a_model_that_uses_our_mark_itself_collides_with_nothing() -> None:
    async def model(messages: Sequence[Any]) -> Reply:
        turns = sum(message["role"] == "assistant" for message in messages)
        names = [("call_0#2",), ("call_0",), ("call_0",)]
        return (
            Reply("", tuple(ToolRequest(n, PAY, {"n": 1}) for n in names[turns])) if turns < 3 else Reply("x")
        )

    async def run() -> list[str]:
        async with serve(manifest()) as (portal, runtime), runtime.session("procurement") as session:
            always(portal)
            await react.run(session, "go", model=model, tools={PAY: Tool()})
            return ids(portal)

    assert asyncio.run(run()) == ["call_0#2", "call_0", "call_0#3"]


def test_the_next_prompt_of_a_conversation_makes_calls_of_its_own() -> None:
    """Also in a session of its own, as web applications have one per turn, and with the same words."""

    async def run() -> None:
        async with serve(manifest()) as (portal, runtime):
            always(portal)
            for number, prompt in enumerate(("go", "on", "on"), start=1):
                async with runtime.session("procurement", conversation_id="c7") as session:
                    tool, _ = await play(session, prompt)
                assert (len(tool.runs), len(set(ids(portal)))) == (2, 2 * number)

    asyncio.run(run())


@pytest.mark.parametrize("same_process", [False, True])
def test_a_replay_takes_up_what_was_asked(same_process: bool) -> None:
    async def broken_off(runtime: Any, portal: FakePortal) -> None:
        async with runtime.session("procurement", conversation_id="c7") as session:

            def decide(made: dict[str, Any]) -> None:
                if len(portal.confirmations) == 1:
                    made.update(status="approved")

            portal.on_create = decide
            playing = asyncio.create_task(play(session))
            [waiting] = await portal.pending()
            assert waiting["tool_call_id"] == "call_0#2"
            session.leave()
            await playing

    async def again(runtime: Any, portal: FakePortal) -> int:
        for resource in portal.confirmations.values():
            resource.update(status="approved")
        async with runtime.session("procurement", conversation_id="c7") as session:
            tool, _ = await play(session)
        assert ids(portal) == ["call_0", "call_0#2"]
        return len(tool.runs)

    async def run() -> int:
        async with serve(manifest()) as (portal, runtime):
            await broken_off(runtime, portal)
            if same_process:
                return await again(runtime, portal)
            asked = portal.confirmations, portal.attempts
        async with serve(manifest()) as (portal, runtime):
            portal.confirmations, portal.attempts = asked
            return await again(runtime, portal)

    # The first call had run before; the second is the one that waited.
    assert asyncio.run(run()) == 1


def test_a_named_run_has_the_same_ids_in_whatever_process() -> None:
    async def run(names: Sequence[str]) -> list[str]:
        async with serve(manifest()) as (portal, runtime), runtime.session("procurement") as session:
            always(portal)
            for name in names:
                await play(session, name=name)
            return ids(portal)

    assert asyncio.run(run(["m1", "m2"]))[2:] == asyncio.run(run(["m2"])) == ["m2:call_0", "m2:call_0#2"]


async def a_text(messages: Any) -> Any:
    return "hello"


async def a_dict(messages: Any) -> Any:
    return {"text": "hello", "tool_calls": []}


async def none(messages: Any) -> Any:
    return None


async def wrong_calls(messages: Any) -> Any:
    return Reply("", ({"id": "1"},))  # type: ignore[arg-type]


def not_async(messages: Any) -> Any:
    return Reply("hello")


@pytest.mark.parametrize("model", [a_text, a_dict, none, wrong_calls, not_async, "gpt", None])
def test_a_wrong_model_is_a_type_error_that_says_what_one_is(model: Any) -> None:
    async def run() -> None:
        async with serve(manifest()) as (_, runtime), runtime.session("procurement") as session:
            await react.run(session, "go", model=model, tools={})

    with pytest.raises(TypeError, match="model must be"):
        asyncio.run(run())
