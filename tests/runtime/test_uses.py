"""What the portal's answers must hold before anything is done by them, and what taking a request back promises."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hookgate import Outcome

from tests.runtime.documents import manifest
from tests.runtime.fake_portal import FakePortal
from tests.runtime.gating import always, gated, pay
from tests.runtime.harness import Tool, eventually

Answer = tuple[int, Any, dict[str, str]]
Alter = Callable[[int, Any, dict[str, str]], Awaitable[Answer]]


def change(code: int | None = None, *, attempt: str | None = "own", **members: Any) -> Alter:
    """An answer with other members (a missing one is ``...``) and, unless ``own``, another attempt."""

    async def alter(was: int, body: Any, headers: dict[str, str]) -> Answer:
        body = {name: value for name, value in {**body, **members}.items() if value is not ...}
        if attempt != "own":
            headers = {} if attempt is None else {"hookgate-attempt": attempt}
        return code or was, body, headers

    return alter


ANOTHER = str(uuid.uuid4())
DIGEST = "sha256:" + "0" * 64


def call(operation: str, alter: Alter) -> tuple[Outcome, Tool, FakePortal]:
    """One gated call, approved at once, with what the portal says to ``operation`` altered."""

    async def run() -> tuple[Outcome, Tool, FakePortal]:
        async with gated() as (portal, session, tool):
            if operation != "wait":
                always(portal)
            portal.alters[operation] = alter
            asking = pay(session, tool)
            if operation == "wait":
                (resource,) = await portal.pending()
                await portal.settle(resource["id"], "approved")
            return await asking, tool, portal

    return asyncio.run(run())


@pytest.mark.parametrize(
    "alter",
    [
        change(id=ANOTHER), change(id=...), change(id=None), change(id=7), change(status="pending"),
        change(status="rejected"), change(status=None), change(status=["approved"]), change(args_digest=DIGEST),
        change(args_digest=...), change(args_digest=None), change(consumed_at=None), change(consumed_at=...),
        change(consumed_at=True), change(consumed_at=""), change(consumed_at="yes"), change(201), change(202),
        change(attempt=None), change(attempt=""), change(attempt=ANOTHER), change(attempt="own own"),
    ],
)  # fmt: skip
def test_only_the_use_of_this_approval_by_this_attempt_runs_the_tool(alter: Alter) -> None:
    outcome, tool, portal = call("consume", alter)
    assert (tool.runs, outcome.blocked, outcome.blocked_by) == ([], True, "approval_gate")
    assert outcome.reason is not None
    assert "could not be used" in outcome.reason
    # It may have been used all the same: nobody knows, and the portal is told so.
    assert [body and body["status"] for body in portal.seen("outcome")] == ["unknown"]


@pytest.mark.parametrize("operation", ["create", "wait"])
@pytest.mark.parametrize(
    "alter",
    [
        change(agent="another"), change(agent=...), change(tool_name="oa__read"), change(tool_name=None),
        change(requested_digest=DIGEST), change(requested_digest=...), change(args_digest=DIGEST),
        change(approved_args={"amount": 1}), change(approved_args=[1]),
    ],
)  # fmt: skip
def test_a_request_that_is_not_the_one_that_was_asked_for_runs_nothing(operation: str, alter: Alter) -> None:
    outcome, tool, portal = call(operation, alter)
    assert (tool.runs, outcome.blocked_by, portal.seen("consume")) == ([], "approval_gate", [])


def test_an_outcome_is_reported_until_the_portal_answers_with_the_request() -> None:
    answers = iter([change(id=ANOTHER), change(status="?"), change()])

    async def alter(status: int, body: Any, headers: dict[str, str]) -> Answer:
        return await next(answers)(status, body, headers)

    async def run() -> None:
        async with gated() as (portal, session, tool):
            always(portal)
            portal.alters["outcome"] = alter
            assert (await pay(session, tool)).status == "succeeded"
            await eventually(lambda: len(portal.seen("outcome")) == 3)

    asyncio.run(run())


def hold(portal: FakePortal, operation: str) -> tuple[asyncio.Event, asyncio.Event]:
    """Let the answers to an operation wait: (one has come to that, let them go)."""
    reached, go = asyncio.Event(), asyncio.Event()

    async def alter(status: int, body: Any, headers: dict[str, str]) -> Answer:
        # As it was when the portal answered.
        body = dict(body)
        reached.set()
        await go.wait()
        return status, body, headers

    portal.alters[operation] = alter
    return reached, go


@pytest.mark.parametrize("approved", [True, False])
def test_a_call_taken_back_while_its_request_is_posted_says_what_the_portal_said(approved: bool) -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            if approved:
                always(portal)
            reached, go = hold(portal, "create")
            asking = pay(session, tool)
            await reached.wait()
            cancelling = asyncio.create_task(session.cancel("call_01"))
            await asyncio.sleep(0)
            go.set()
            outcome = await asking
            assert (await cancelling, len(tool.runs)) == ((False, 1) if approved else (True, 0))
            assert outcome.blocked is not approved

    asyncio.run(run())


def test_what_the_portal_does_not_take_back_is_not_said_to_be() -> None:
    async def run(alter: Alter) -> None:
        async with gated() as (portal, session, tool):
            asking = pay(session, tool)
            (resource,) = await portal.pending()
            real, portal._cancel = portal._cancel, portal._wait  # type: ignore[method-assign]
            portal.alters["cancel"] = alter
            assert await session.cancel("call_01") is False
            portal._cancel = real  # type: ignore[method-assign]
            await portal.settle(resource["id"], "approved")
            assert ((await asking).status, len(tool.runs)) == ("succeeded", 1)

    for alter in (
        change(),
        change(id=ANOTHER, status="cancelled"),
        change(status=...),
        change(status="approved"),
    ):
        asyncio.run(run(alter))


def test_a_call_that_was_taken_back_ends_at_once_and_stays_taken_back() -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            # The end is never told: neither by the stream, nor by an answer.
            hold(portal, "wait")
            asking = pay(session, tool)
            await portal.pending()
            assert await session.cancel("call_01") is True
            assert (await asking).reason == "the request was cancelled by this program"
            assert (tool.runs, await session.cancel("call_01"), await session.cancel("call_02")) == (
                [],
                False,
                False,
            )

    asyncio.run(run())


def test_a_portal_that_takes_back_and_lets_use_at_once_runs_nothing_that_was_said_to_be_taken_back() -> None:
    """Both answers come at the same time, whichever is first."""

    async def run(first: str) -> None:
        async with gated() as (portal, session, tool):
            always(portal)
            reached = {name: hold(portal, name) for name in ("consume", "cancel")}

            async def take(match: Any, *_: Any) -> Any:
                return 200, {**portal.confirmations[match.group(1)], "status": "cancelled"}, {}

            portal._cancel = take  # type: ignore[assignment, method-assign]
            asking = pay(session, tool)
            await reached["consume"][0].wait()
            cancelling = asyncio.create_task(session.cancel("call_01"))
            await reached["cancel"][0].wait()
            reached[first][1].set()
            await asyncio.wait({asking, cancelling}, return_when=asyncio.FIRST_COMPLETED)
            for _, go in reached.values():
                go.set()
            outcome, taken_back = await asking, await cancelling
            assert (taken_back, len(tool.runs), outcome.blocked) in [(True, 0, True), (False, 1, False)]

    for first in ("consume", "cancel"):
        asyncio.run(run(first))


def test_calls_that_share_an_id_are_all_taken_back_or_none_is_said_to_be() -> None:
    async def run() -> None:
        async with gated(manifest()) as (portal, session, tool):
            began, go = asyncio.Event(), asyncio.Event()

            async def slow(args: dict[str, Any]) -> str:
                began.set()
                await go.wait()
                return "ran"

            asking = pay(session, tool)
            await portal.pending()
            free = asyncio.create_task(
                session.call_tool("oa__read", {}, execute=slow, tool_call_id="call_01")
            )
            await began.wait()
            assert await session.cancel("call_01") is False
            go.set()
            await free
            assert await session.cancel("call_01") is True
            assert ((await asking).blocked, tool.runs) == (True, [])

    asyncio.run(run())
