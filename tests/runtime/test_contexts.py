"""What a hook is told at each point is what the table of docs/hooks.md says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hookgate import HookContext, HookEvent
from hookgate.loops import react
from hookgate.loops.react import Reply, ToolRequest

from tests.docs.tables import generated
from tests.runtime import handlers_for_tests
from tests.runtime.documents import handler, manifest
from tests.runtime.harness import USER, Tool, serve
from tests.runtime.test_loops import Model

PAGE = Path(__file__).resolve().parents[2] / "docs" / "hooks.md"
ALWAYS = {"agent_id", "session_id", "conversation_id", "surface", "user_id"}
FIELDS = ("tool_name", "tool_args", "tool_result", "error", "prompt", "source", "reason")
METADATA = {
    "org_id", "conversation_id", "tool_call_id", "connector", "action", "writes", "requires_confirmation",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    handlers_for_tests.seen.clear()
    yield
    handlers_for_tests.seen.clear()


def documented() -> dict[str, set[str]]:
    rows = re.findall(
        r"^\| `(\w+)` \| .*? \| (.*) \|$", generated(PAGE.read_text("utf-8"), "points"), re.MULTILINE
    )
    return {
        point: set(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", cells))) & set(FIELDS)
        for point, cells in rows
    }


def ask(*names: str) -> Reply:
    return Reply("", tuple(ToolRequest(f"c-{name}", name, {"amount": 1}) for name in names))


async def play() -> list[HookContext]:
    """A prompt with every kind of call and a delegate, then one whose model fails."""
    notes = [
        handler("tests.runtime.handlers_for_tests:note", point=point, name=f"{point}[0].hooks[0]")
        for point in HookEvent
    ]
    parent = manifest(*notes, may_delegate_to=["researcher"])
    async with serve(parent, manifest(agent="researcher"), python_handlers=["tests"]) as (portal, runtime):
        portal.on_create = lambda resource: resource.update(status="rejected", reason="no")
        async with runtime.session("procurement", user=USER, conversation_id="c7") as session:

            async def delegate(args: dict[str, Any]) -> str:
                async with session.delegate("researcher") as child:
                    return (await react.run(child, "look", model=Model(Reply("found")), tools={})).text

            async def compact(messages: list[Any]) -> list[Any]:
                return messages[-1:]

            tools: dict[str, Any] = {
                "oa__read": delegate,
                "oa__write": Tool(error=ValueError("broken")),
                "oa__purchase_pay": Tool(),
            }
            model = Model(ask(*tools), Reply("done"))
            await react.run(session, "go", model=model, tools=tools, compact=compact, compact_after=2)
            await react.run(session, "again", model=Model(RuntimeError("down")), tools={})
            await session.emit("Notification", source="program")
    return [context for _, context in handlers_for_tests.seen]


def test_each_point_sets_the_fields_that_the_table_names() -> None:
    expected = documented()
    assert list(expected) == [str(point) for point in HookEvent]
    found: dict[str, set[str]] = {point: set() for point in expected}
    contexts = asyncio.run(play())
    for context in contexts:
        given = {name for name in FIELDS if getattr(context, name) not in (None, "", {})}
        found[context.event] |= given
        assert {name for name in ALWAYS if getattr(context, name) is None} == set()
        assert set(context.metadata) >= METADATA
    assert found.pop("Notification") == {"source"}
    expected.pop("Notification")
    assert found == expected


def test_what_a_point_says_about_its_moment() -> None:
    contexts = asyncio.run(play())
    said: dict[str, list[Any]] = {}
    for ctx in contexts:
        what = ctx.reason or ctx.error or ctx.prompt or ctx.source or ctx.tool_result or ctx.tool_name
        said.setdefault(ctx.event, []).append(what)
    assert said["SessionStart"] == ["startup"]
    assert said["UserPromptSubmit"] == ["go", "again"]
    assert sorted(said["PreToolUse"]) == ["oa__purchase_pay", "oa__read", "oa__write"]
    assert said["PermissionRequest"] == ["oa__purchase_pay"]
    assert said["PermissionDenied"] == ["rejected: no"]
    assert said["PostToolUse"] == ["found"]
    assert said["PostToolUseFailure"] == ["ValueError: broken"]
    assert said["Stop"] == ["answered"]
    assert said["StopFailure"] == ["RuntimeError: down"]
    assert (said["SubagentStart"], said["SubagentStop"]) == (["researcher"], ["answered"])
    assert said["PreCompact"] == said["PostCompact"] == ["auto"]
    assert said["SessionEnd"] == ["exit"]
    answers = {str(ctx.event): ctx.metadata.get("answer") for ctx in contexts}
    assert (answers["Stop"], answers["SubagentStop"]) == ("done", "found")
    (pay,) = [ctx for ctx in contexts if ctx.event == "PermissionRequest"]
    assert {name: pay.metadata[name] for name in METADATA} == {
        "org_id": "acme", "conversation_id": "c7", "tool_call_id": "c-oa__purchase_pay", "connector": "oa",
        "action": "purchase_pay", "writes": True, "requires_confirmation": True,
    }  # fmt: skip
