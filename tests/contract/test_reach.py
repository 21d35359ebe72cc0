"""Section 5, "Portal out of reach" and "The gate", told by what the runtime and the real portal say to each other."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hookgate import HookContext, HookResult, PreToolUseHook, Runtime

from tests.contract.breaking import Breaker
from tests.contract.conftest import World
from tests.contract.faults import PACING
from tests.contract.outside import STRANGER, digest
from tests.contract.playing import Hands, Tool, eventually, play


class Between:
    """A runtime with a clock of its own, a proxy before the portal, and somebody who approves everything."""

    def __init__(self, world: World, breaker: Breaker, key: str) -> None:
        self.world = world
        self.breaker = breaker
        self.clock = Hands()
        self.tool = Tool("done")
        self.runtime = Runtime(breaker.url, world.issued[key], clock=self.clock, pacing=PACING)
        self.deciding: set[asyncio.Task[Any]] = set()

    def hear(self, event: dict[str, Any]) -> None:
        if event["type"] == "awaiting_confirmation":
            deciding = asyncio.to_thread(self.world["bob"].respond, event, "approve")
            self.deciding.add(asyncio.ensure_future(deciding))

    def session(self, agent: str) -> Any:
        return self.runtime.session(agent, user=STRANGER, on_event=self.hear)

    def bodies(self, purpose: str) -> list[Any]:
        """What was said for one purpose."""
        return [body for asked, body in self.breaker.asked if asked == purpose]


@asynccontextmanager
async def between(world: World, key: str = "hooked") -> AsyncIterator[Between]:
    """A scene whose proxy breaks nothing yet."""
    async with Breaker(world.portal.url) as breaker:
        at = Between(world, breaker, key)
        async with at.runtime:
            yield at


def test_age_counts_from_the_start_of_a_request_that_was_answered_200_or_304(
    hooked: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[str] = []
    outcomes = play(_grow_old(hooked, monkeypatch, bodies))
    assert [outcome.blocked for outcome in outcomes] == [False, False, False, False, False, True, False]
    # 10 and 3.5 seconds old it serves, and 16 seconds are more than the 15 of `max_stale_seconds`; what was answered
    # after ten seconds was a 304, which has no body.
    assert outcomes[5].blocked_by == "registry"
    assert bodies.count("registry") <= 1


async def _grow_old(hooked: World, monkeypatch: pytest.MonkeyPatch, bodies: list[str]) -> list[Any]:
    """Outcomes of calls with a registry that is asked for in vain from the third on."""
    async with between(hooked) as at, at.session("self") as session:

        async def call(ahead: float) -> Any:
            at.clock.ahead += ahead
            return await session.call_tool("anything", {}, execute=at.tool)

        dawdled: list[str] = []

        def dawdle(asked: str, which: str) -> str | None:
            # The portal takes ten seconds for one answer, and gives no other.
            if asked != "registry":
                return None
            if dawdled:
                return "500"
            dawdled.append(which)
            at.clock.ahead += 10.0
            return None

        outcomes = [await call(0.0)]
        at.breaker.change = lambda purpose, said: bodies.append(purpose)
        at.breaker.plan = dawdle
        outcomes.append(await call(2.0))
        while not dawdled:
            # It shared a request that was under way.
            outcomes[-1] = await call(2.0)
        # The wall clock is put back and on: it counts for nothing.
        real = time.time
        for shift in (-86_400.0, 86_400.0):
            monkeypatch.setattr(time, "time", lambda shift=shift: real() + shift)
            outcomes.append(await call(0.0))
        outcomes.append(await call(3.5))
        outcomes.append(await call(2.5))
        at.breaker.plan = lambda asked, which: None
        outcomes.append(await call(0.0))
        return outcomes


Retell = Callable[[bytes], bytes]
REFUSALS: dict[str, tuple[int, Callable[[World], Retell]]] = {
    "a key that nobody knows": (401, lambda world: _with_key("hg_no-such-key")),
    "a key without the scope": (403, lambda world: _with_key(world.issued["notify only"])),
    "an agent that is gone": (404, lambda world: lambda head: head.replace(b"/procurement/", b"/no-such/")),
    "an agent that is off": (422, lambda world: lambda head: head.replace(b"/procurement/", b"/resting/")),
}


def _with_key(key: str) -> Retell:
    line = b"\r\nAuthorization: Bearer " + key.encode()
    return lambda head: re.sub(rb"(?i)\r\nauthorization: [^\r]*", line, head)


@pytest.mark.parametrize("why", REFUSALS)
def test_a_refusal_stops_a_session_at_once_however_young_its_registry(hooked: World, why: str) -> None:
    status, make = REFUSALS[why]

    async def scene() -> tuple[list[Any], Tool, str | None]:
        async with between(hooked, "acme") as at, at.session("procurement") as session:

            async def call() -> Any:
                return await session.call_tool("calculator", {}, execute=at.tool)

            outcomes = [await call(), await call()]
            retell, heads = make(hooked), list[bytes]()
            at.breaker.retell = lambda head: heads.append(head) or retell(head)  # type: ignore[func-returns-value]
            # A call may share a request that was under way before.
            while not any(b"/registry" in head for head in heads):
                at.tool.ran.clear()
                at.clock.ahead += 2.0
                outcomes[1] = await call()
            # For good: also when the portal would let it in again.
            at.breaker.retell = lambda head: head
            at.clock.ahead += 2.0
            outcomes.append(await call())
            return outcomes, at.tool, session.stopped

    (first, refused, later), tool, stopped = play(scene())
    assert [outcome.blocked for outcome in (first, refused, later)] == [False, True, True]
    assert (refused.blocked_by, later.blocked_by, tool.ran) == ("registry", "registry", [])
    assert str(status) in refused.reason
    assert stopped


class Watching(PreToolUseHook):
    """Sees each set of arguments; says no to, or rewrites, the one that it is told of."""

    name = "watching"

    def __init__(self, *, at: Any = None, answer: HookResult | None = None) -> None:
        self.at, self.answer = at, answer or HookResult()
        self.saw: list[Any] = []

    async def execute(self, ctx: HookContext) -> HookResult:
        self.saw.append(ctx.tool_args)
        return self.answer if ctx.tool_args == self.at else HookResult()


def test_an_approval_is_used_for_the_arguments_that_are_about_to_run(hooked: World) -> None:
    async def scene() -> tuple[Any, Between]:
        async with between(hooked) as at, at.session("self") as session:
            session.hooks.register(
                Watching(at={"n": 1}, answer=HookResult(modified_args={"n": 2, "m": "two"}))
            )
            outcome = await session.call_tool("oa__pay", {"n": 1}, execute=at.tool)
            return outcome, at

    outcome, at = play(scene())
    args = {"n": 2, "m": "two"}
    assert (outcome.result, outcome.args, at.tool.ran) == ("done", args, [args])
    assert [body["tool_args"] for body in at.bodies("create")] == [args]
    assert {body["args_digest"] for body in at.bodies("consume")} == {digest(args)}


def edit(args: dict[str, Any]) -> Callable[[str, dict[str, Any]], None]:
    """Approvals say that the approver changed the arguments. A portal of this release has no such approvals: the
    answers are made to say so, and the portal, which knows better, lets none of them be used."""

    def change(purpose: str, said: dict[str, Any]) -> None:
        if purpose in ("create", "wait") and said.get("status") == "approved":
            said.update(approved_args=args, args_digest=digest(args))

    return change


EDITS = {
    "nobody minds": (HookResult(), "approval_gate", [digest({"n": 5})]),
    "a hook says no": (HookResult(allow=False, error="not five"), "watching", []),
    "a hook rewrites": (HookResult(modified_args={"n": 6}), "approval_gate", []),
}


@pytest.mark.parametrize("what", EDITS)
def test_arguments_that_an_approver_changed_pass_the_other_hooks_again(hooked: World, what: str) -> None:
    answer, blocked_by, used = EDITS[what]
    watching = Watching(at={"n": 5}, answer=answer)

    async def scene() -> tuple[Any, Between]:
        async with between(hooked) as at, at.session("self") as session:
            session.hooks.register(watching)
            at.breaker.change = edit({"n": 5})
            return await session.call_tool("oa__pay", {"n": 1}, execute=at.tool), at

    outcome, at = play(scene())
    assert watching.saw == [{"n": 1}, {"n": 5}]
    assert (outcome.blocked, outcome.blocked_by, at.tool.ran) == (True, blocked_by, [])
    assert [body["args_digest"] for body in at.bodies("consume")] == used


ROUTES = {
    # agent, key, tool: the channels of the cards, and the policy
    ("triggered", "acme", "oa__write"): (["spare"], "by-group"),
    ("triggered", "acme", "free"): (["ops"], "reasoned"),
    ("procurement", "acme", "oa__pay"): (["ops"], "payments"),
    ("procurement", "solo", "anything"): (["only"], "default"),
    ("spelled", "hooked", "anything"): (["room"], "default"),
    ("quiet", "acme", "oa__pay"): ([], "payments"),
}


@pytest.mark.parametrize(("agent", "key", "tool"), ROUTES)
def test_cards_go_to_the_triggers_channel_else_the_agents_else_the_platforms_only_one(
    hooked: World, agent: str, key: str, tool: str
) -> None:
    asked: list[Any] = []

    async def scene() -> Any:
        async with (
            Runtime(hooked.portal.url, hooked.issued[key]) as runtime,
            runtime.session(agent, user=STRANGER, on_event=asked.append) as session,
        ):
            call = asyncio.create_task(
                session.call_tool(tool, {"amount": 60000}, execute=Tool(), tool_call_id="t")
            )
            await eventually(lambda: asked)
            request = await asyncio.to_thread(hooked[key].read, asked[0])
            await session.cancel("t")
            await call
            return request

    request = play(scene())
    went_to = sorted({delivery["channel"] for delivery in request["deliveries"]})
    assert (went_to, request["policy"]["slug"]) == ROUTES[agent, key, tool]
    assert request["hook"] == "approval_gate"
