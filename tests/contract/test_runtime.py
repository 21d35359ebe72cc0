"""Section 5: the documented API of the package, against the real portal."""

import asyncio
import uuid
from typing import Any

import pytest
from hookgate import (
    Runtime,
    SyncRuntime,
    ToolBlocked,
)
from hookgate.canonical import digest

from tests.contract.conftest import World
from tests.contract.outside import KIM, STRANGER
from tests.contract.playing import Scene, Seen, Tool, eventually, play

METADATA = {
    "org_id",
    "conversation_id",
    "tool_call_id",
    "connector",
    "action",
    "writes",
    "requires_confirmation",
}


def test_session_start_puts_its_text_into_the_context(world: World) -> None:
    async def scene() -> str:
        async with Scene(world) as at, at.session("procurement", user=KIM) as session:
            return str(session.context)

    text = play(scene())
    for word in ("procurement", "acme"):
        assert word in text.lower()
    assert "u42" in text or "Kim" in text or "kim@acme.test" in text


def test_a_call_that_needs_nobody(world: World) -> None:
    tool = Tool("three")

    async def scene() -> Any:
        async with Scene(world) as at, at.session("procurement") as session:
            return await session.call_tool("calculator", {"n": 1}, execute=tool)

    outcome = play(scene())
    assert (outcome.blocked, outcome.blocked_by, outcome.reason, outcome.error) == (False, None, None, None)
    assert (outcome.result, outcome.confirmation_id, outcome.side_effects) == ("three", None, [])
    assert "three" in outcome.observation
    assert outcome.raise_if_blocked() is None or outcome.raise_if_blocked() is outcome
    assert tool.ran == [{"n": 1}]
    assert {"readonly_guard", "audit_log"} <= {part["hook"] for part in outcome.trace}
    assert all({"hook", "outcome", "ms", "changed"} <= set(part) for part in outcome.trace)


def logged(world: World, confirmation_id: str) -> dict[str, Any]:
    """The call-log entry of the call that ran on an approval."""
    entries = world["carol"].get("/calls", tool="oa__pay", status="succeeded").json()["results"]
    found: dict[str, Any] = next(e for e in entries if e["confirmation_id"] == confirmation_id)
    return found


def test_an_approved_call_runs_once_and_says_what_happened(world: World) -> None:
    events: list[Any] = []
    tool = Tool("paid")

    async def scene() -> Any:
        async with (
            Scene(world) as at,
            at.session(
                "procurement", user=STRANGER, conversation_id="c-approved", on_event=events.append
            ) as session,
        ):
            call = asyncio.create_task(
                session.call_tool("oa__pay", {"amount": 60000, "card_number": "4111-1111"}, execute=tool)
            )
            await eventually(lambda: [e for e in events if e["type"] == "awaiting_confirmation"])
            assert not tool.ran
            pending = {"id": events[0]["id"]}
            assert (await asyncio.to_thread(world["bob"].respond, pending, "approve")).status_code == 200
            return await call

    outcome = play(scene())
    assert (outcome.blocked, outcome.result) == (False, "paid")
    assert tool.ran == [{"amount": 60000, "card_number": "4111-1111"}]
    waiting, resolved = events
    assert set(waiting) >= {"id", "url", "expires_at"}
    assert waiting["url"].startswith(world.portal.url)
    assert (resolved["type"], resolved["id"]) == ("confirmation_resolved", outcome.confirmation_id)
    request = world["acme"].read({"id": outcome.confirmation_id})
    assert request["args_digest"] == digest({"amount": 60000, "card_number": "4111-1111"})
    assert request["consumed_at"] is not None
    assert request["initiator"] == STRANGER
    entry = logged(world, outcome.confirmation_id)
    assert (entry["agent"], entry["conversation_id"], entry["surface"]) == (
        "procurement",
        "c-approved",
        "chat",
    )
    assert (entry["args_digest"], entry["args_tag"]) == (None, request["args_tag"])
    assert "4111-1111" not in str(entry["args"])
    assert "approval_gate" in {part["hook"] for part in entry["trace"]}


def test_a_rejected_call_tells_the_model_why(world: World) -> None:
    events: list[Any] = []
    tool = Tool()

    async def scene() -> Any:
        async with Scene(world) as at, at.session("procurement", on_event=events.append) as session:
            call = asyncio.create_task(session.call_tool("oa__pay", {"amount": 1}, execute=tool))
            await eventually(lambda: events)
            await asyncio.to_thread(world["bob"].respond, events[0], "reject", reason="wrong supplier")
            return await call

    outcome = play(scene())
    assert (outcome.blocked, outcome.blocked_by, tool.ran) == (True, "approval_gate", [])
    assert "wrong supplier" in outcome.reason
    assert "approval_gate" in outcome.observation
    assert "wrong supplier" in outcome.observation
    assert [e["type"] for e in events] == ["awaiting_confirmation", "confirmation_resolved", "blocked"]
    with pytest.raises(ToolBlocked):
        outcome.raise_if_blocked()


def test_a_call_that_nobody_answers_is_blocked(world: World) -> None:
    tool = Tool()

    async def scene() -> Any:
        async with Scene(world) as at, at.session("quiet") as session:
            return await session.call_tool("oa__brief", {}, execute=tool)

    outcome = play(scene())
    assert (outcome.blocked, outcome.blocked_by, tool.ran) == (True, "approval_gate", [])
    assert "expired" in outcome.reason


def test_call_tool_raises_for_nothing_that_the_tool_did(world: World) -> None:
    async def scene() -> tuple[Any, Any]:
        async with Scene(world) as at, at.session("procurement") as session:
            failed = await session.call_tool("calculator", {}, execute=Tool(RuntimeError("no money")))
            impossible = await session.call_tool("calculator", {"n": float("nan")}, execute=Tool())
            return failed, impossible

    failed, impossible = play(scene())
    assert (failed.blocked, failed.result) == (False, None)
    assert "no money" in failed.error
    assert "no money" in failed.observation
    assert impossible.blocked
    assert "tool_args.n" in impossible.observation


def test_sync_tools_and_fronting_tools(world: World) -> None:
    guard = Seen()

    async def scene() -> Any:
        async with (
            Scene(world) as at,
            at.session("procurement", conversation_id="c9", user=STRANGER) as session,
        ):
            session.hooks.register(guard)
            await session.call_tool(
                "calculator", {"a": 1}, execute=lambda args: args["a"] + 1, tool_call_id="t1"
            )
            return await session.call_tool(
                "connector", {"q": "x"}, execute=lambda args: "found", action="oa__search"
            )

    outcome = play(scene())
    assert (outcome.blocked, outcome.result) == (False, "found")
    first, second = guard.contexts
    assert set(first.metadata) >= METADATA
    assert (first.tool_name, first.tool_args, first.event) == ("calculator", {"a": 1}, "PreToolUse")
    assert (first.conversation_id, first.user_id, first.surface) == ("c9", "u1", "chat")
    assert (first.metadata["tool_call_id"], first.metadata["connector"]) == ("t1", None)
    assert (first.metadata["conversation_id"], first.metadata["writes"]) == ("c9", False)
    assert first.metadata["org_id"]
    assert second.metadata["connector"] == "oa"
    assert second.metadata["action"] in ("search", "oa__search")
    assert second.metadata["requires_confirmation"] is False
    assert first.session_id == second.session_id
    assert first.metadata["tool_call_id"] != second.metadata["tool_call_id"]


def test_a_delegate_has_its_own_registry_and_gate(world: World) -> None:
    events: list[Any] = []
    tool = Tool()
    mine = Seen()

    async def scene() -> Any:
        async with Scene(world) as at, at.session("lead", user=STRANGER, conversation_id="c-d") as session:
            session.hooks.register(mine)
            free = await session.call_tool("lookup", {}, execute=tool)
            async with session.delegate("helper", on_event=events.append) as child:
                call = asyncio.create_task(child.call_tool("lookup", {}, execute=tool))
                await eventually(lambda: events)
                request = world["acme"].read(events[0])
                await asyncio.to_thread(world["bob"].respond, events[0], "approve")
                gated = await call
            refused = None
            try:
                async with session.delegate("procurement"):
                    pass
            except Exception as error:
                refused = error
            return free, gated, request, refused

    free, gated, request, refused = play(scene())
    assert (free.blocked, free.confirmation_id) == (False, None)
    assert (gated.blocked, request["agent"]) == (False, "helper")
    assert request["conversation_id"] == "c-d"
    assert request["initiator"] == STRANGER
    assert len(mine.contexts) == 1
    assert "procurement" in str(refused)
    entries = world["carol"].get("/calls", agent="helper").json()["results"]
    assert {entry["surface"] for entry in entries} == {"subagent"}


def test_an_evaluation_asks_nobody_and_writes_nothing(world: World) -> None:
    events: list[Any] = []
    tool, stub = Tool(), Tool("stubbed")

    async def scene() -> list[Any]:
        async with (
            Scene(world, key="eval") as at,
            at.session(
                "procurement", surface="eval", stubs={"oa__pay": stub}, on_event=events.append
            ) as session,
        ):
            return [
                await session.call_tool("oa__write", {"n": 1}, execute=tool),
                await session.call_tool("oa__plain", {"n": 2}, execute=tool),
                await session.call_tool("unlisted", {"n": 3}, execute=tool),
                await session.call_tool("oa__pay", {"n": 4}, execute=tool),
                await session.call_tool("oa__search", {"n": 5}, execute=tool),
            ]

    writes, asks, unlisted, stubbed, reads = play(scene())
    for outcome in (writes, asks, unlisted):
        assert outcome.blocked
        assert outcome.observation
    assert (stubbed.blocked, stubbed.result, stub.ran) == (False, "stubbed", [{"n": 4}])
    assert (reads.blocked, tool.ran) == (False, [{"n": 5}])
    assert [event for event in events if event["type"] == "awaiting_confirmation"] == []


def test_a_declared_rate_limit_holds_across_sessions(world: World) -> None:
    tool, user = Tool(), {"id": uuid.uuid4().hex}

    async def scene() -> list[Any]:
        outcomes = []
        async with Scene(world) as at:
            for _ in range(3):
                async with at.session("limited", user=user) as session:
                    outcomes.append(await session.call_tool("oa__search", {}, execute=tool))
            async with at.session("limited", user={"id": "another"}) as session:
                outcomes.append(await session.call_tool("oa__search", {}, execute=tool))
        return outcomes

    outcomes = play(scene())
    assert [outcome.blocked for outcome in outcomes] == [False, False, True, False]
    assert outcomes[2].blocked_by == "connector_rate_limit"
    assert len(tool.ran) == 3


def test_the_key_and_the_address_may_come_from_the_environment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGATE_URL", world.portal.url)
    monkeypatch.setenv("HOOKGATE_KEY", world.issued["acme"])

    async def scene() -> Any:
        async with Runtime.from_env() as runtime, runtime.session("lenient") as session:
            return await session.call_tool("anything", {}, execute=Tool("ok"))

    assert play(scene()).result == "ok"


def test_without_asyncio(world: World) -> None:
    with (
        SyncRuntime(world.portal.url, world.issued["acme"], name="plain") as runtime,
        runtime.session("lenient", user=STRANGER) as session,
    ):
        outcome = session.call_tool("anything", {"n": 1}, execute=lambda args: args["n"] + 1)
        assert session.emit("Stop").allow is True
    assert (outcome.blocked, outcome.result) == (False, 2)


def test_two_runtimes_with_the_same_call_run_it_once(world: World) -> None:
    events: list[Any] = []
    tool, conversation = Tool("paid"), uuid.uuid4().hex

    async def one(at: Scene) -> Any:
        async with at.session("quiet", conversation_id=conversation, on_event=events.append) as session:
            return await session.call_tool("oa__pay", {"n": 1}, execute=tool, tool_call_id="shared")

    async def scene() -> list[Any]:
        async with Scene(world) as first, Scene(world) as second:
            calls = [asyncio.create_task(one(at)) for at in (first, second)]
            await eventually(lambda: len([e for e in events if e["type"] == "awaiting_confirmation"]) == 2)
            await asyncio.to_thread(world["bob"].respond, events[0], "approve")
            return await asyncio.gather(*calls)

    outcomes = play(scene())
    assert len({outcome.confirmation_id for outcome in outcomes}) == 1
    assert sorted(outcome.blocked for outcome in outcomes) == [False, True]
    assert tool.ran == [{"n": 1}]


@pytest.mark.parametrize("user", [None, {"id": 42}, {"id": "u1", "name": "Lee"}, {"email": "kim@acme.test"}])
def test_every_user_is_on_record(world: World, user: Any) -> None:
    conversation = uuid.uuid4().hex

    async def scene() -> Any:
        async with (
            Scene(world) as at,
            at.session("lenient", user=user, conversation_id=conversation) as session,
        ):
            return await session.call_tool("anything", {}, execute=Tool("ok"))

    assert play(scene()).result == "ok"
    listed = world["carol"].get("/calls", tool="anything", agent="lenient").json()["results"]
    entry = next((row for row in listed if row["conversation_id"] == conversation), None)
    assert entry is not None, "the call is not in the log"
    if user and "id" in user:
        assert str(user["id"]) in str(entry["user"])


@pytest.mark.parametrize("user", [{"id": 42}, {"email": "kim@acme.test"}, {"id": "u1", "name": None}])
def test_every_user_may_be_the_initiator(world: World, user: Any) -> None:
    events: list[Any] = []

    async def scene() -> Any:
        async with Scene(world) as at, at.session("quiet", user=user, on_event=events.append) as session:
            call = asyncio.create_task(session.call_tool("oa__pay", {}, execute=Tool(), tool_call_id="t"))
            await eventually(lambda: events)
            await session.cancel("t")
            return await call

    outcome = play(scene())
    assert events[0]["type"] == "awaiting_confirmation", outcome.reason
