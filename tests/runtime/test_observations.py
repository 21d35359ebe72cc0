"""What the model, the log and the portal get to read of whatever a tool, a hook or a model makes up."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import json
import uuid
from collections import OrderedDict, defaultdict, namedtuple
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pydantic
import pytest
from hookgate import HookContext, HookResult, PostToolUseHook, PreToolUseHook
from hookgate.result_text import as_text

from tests.runtime.documents import attached, manifest
from tests.runtime.gating import always
from tests.runtime.harness import Tool, eventually, serve


@dataclasses.dataclass
class Order:
    amount: int
    to: Any


class Form(pydantic.BaseModel):
    amount: int
    when: datetime.date


class Opaque:
    pass


class Mute:
    def __str__(self) -> str:
        raise SystemExit(1)

    __repr__ = __str__


class Lying:
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]


class Shout(str):
    def __str__(self) -> str:
        raise ValueError


class Evil(dict[str, Any]):
    def items(self) -> Any:
        raise KeyboardInterrupt

    __iter__ = values = keys = items


Point = namedtuple("Point", "x y")
CYCLE: dict[str, Any] = {"a": 1}
CYCLE["self"] = [CYCLE]
SELF_REFERENCE = Order(1, None)
SELF_REFERENCE.to = SELF_REFERENCE
DEEP: Any = 1
for _ in range(5000):
    DEEP = {"d": DEEP}
WIDE: Any = "x"
for _ in range(60):
    WIDE = [WIDE, WIDE]
UUID = uuid.UUID(int=1)

SHOWN: list[tuple[Any, str]] = [
    ("text", "text"), (None, "null"), (True, "true"), (1.5, "1.5"), ({"ä": ["日"]}, '{"ä": ["日"]}'),
    ("a\ud800\x00b", "a\ufffd\ufffdb"), ("\ud83d\ude00", "😀"), ({"k\x00": "\udfff"}, '{"k\\u0000": "\ufffd"}'),
    ({(1, 2): "x"}, '{"[1, 2]": "x"}'), ({1: "a", None: "b", 2.5: "c"}, '{"1": "a", "null": "b", "2.5": "c"}'),
    ({UUID: 1}, f'{{"{UUID}": 1}}'), ({b"k": 1}, '{"k": 1}'), ({Opaque: 1, frozenset({1}): 2}, '"[1]": 2'),
    ({("a", Opaque()): 1}, "can't be shown"), ({1, 2}, "[1, 2]"), (Point(1, 2), "[1, 2]"), (b"bytes", "bytes"),
    (b"\xff\xfe", "(2 bytes that are no text)"), ([b"\xff"], '["(1 bytes that are no text)"]'),
    (Order(1, {"n": Decimal("1.5")}), '{"amount": 1, "to": {"n": "1.5"}}'),
    (Form(amount=1, when=datetime.date(2026, 1, 2)), '{"amount": 1, "when": "2026-01-02"}'),
    (MappingProxyType({"a": 1}), '{"a": 1}'), (OrderedDict(a=1), '{"a": 1}'), (defaultdict(list, a=[1]), '{"a": [1]}'),
    (datetime.date(2026, 1, 2), "2026-01-02"), ([UUID], f'["{UUID}"]'), (Path("/a"), "/a"),
    (SimpleNamespace(a=1), "a=1"),
    (Opaque(), "(a Opaque, which can't be shown as text)"),
    ([Opaque()], '["(a Opaque, which can\'t be shown as text)"]'),
    (Mute(), "(a Mute, which can't be shown as text)"), ({"a": Lying()}, "(a Lying, which can't be shown as text)"),
    ([Shout("x")], '["x"]'), (Shout("x"), "x"), (Evil(a=1), "can't be shown"), ([Evil(a=1)], "can't be shown"),
    (CYCLE, "(refers to what it is in)"), (SELF_REFERENCE, "(refers to what it is in)"),
    (DEEP, "(nested deeper than 100 levels, not shown)"), (WIDE, "(too much to be shown)"),
    (10**5000, "bits, too long to be shown)"), ({"n": [-(10**5000)]}, "bits, too long to be shown)"),
    (float("nan"), "NaN"),
    ({1: [float("inf")]}, "Infinity"), (ValueError("no"), "no"), (NotImplemented, "NotImplemented"), (..., "Ellipsis"),
    (memoryview(b"m"), "m"), (bytearray(b"b"), "b"), (range(3), "range(0, 3)"), (object, "<class 'object'>"),
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(SHOWN)))
def test_whatever_a_tool_returns_is_text_that_says_what_it_can_not_show(index: int) -> None:
    value, shown = SHOWN[index]
    text = as_text(value)
    assert shown in text, text[:300]
    assert text.encode("utf-8")
    assert "\x00" not in text


def test_every_result_reaches_model_and_log_and_costs_no_entry() -> None:
    async def run() -> None:
        async with serve(manifest(hooks=attached(audit={"results": True}))) as (portal, runtime):
            async with runtime.session("procurement") as session:
                for value, _ in SHOWN:
                    outcome = await session.call_tool("oa__read", {}, execute=Tool(value))
                    assert outcome.status == "succeeded"
                    outcome.observation.encode("utf-8")
            await eventually(lambda: len(portal.calls) == len(SHOWN))

    asyncio.run(run())


DIRTY = "a\ud800\x00b"


class Says(PreToolUseHook):
    name = "says"
    allow = True

    async def execute(self, ctx: HookContext) -> HookResult:
        return HookResult(
            allow=self.allow,
            error=DIRTY,
            side_effects=[DIRTY],
            additional_context=DIRTY,
            system_message=DIRTY,
        )


class Fails(PostToolUseHook):
    name = "fails"
    on_error = "deny"

    async def execute(self, ctx: HookContext) -> HookResult:
        raise ValueError(DIRTY)


def test_reasons_errors_and_texts_of_hooks_and_models_can_be_sent_anywhere() -> None:
    async def run() -> None:
        events: list[Any] = []
        async with serve(manifest()) as (portal, runtime):
            always(portal)
            async with runtime.session("procurement", on_event=events.append) as session:
                session.hooks.register(says := Says())
                outcomes = [
                    await session.call_tool("oa__read", {}, execute=Tool(error=RuntimeError(DIRTY))),
                    await session.call_tool("oa__purchase_pay", {}, execute=Tool(error=RuntimeError(DIRTY))),
                    await session.call_tool(DIRTY, {}, execute=Tool()),
                    await session.call_tool("oa__read", {DIRTY: DIRTY}, execute=Tool()),
                ]
                says.allow = False
                outcomes.append(await session.call_tool("oa__read", {}, execute=Tool()))
                session.hooks.unregister("says")
                session.hooks.register(Fails())
                outcomes.append(await session.call_tool("oa__read", {}, execute=Tool()))
            for outcome in outcomes:
                texts = [
                    outcome.observation,
                    outcome.reason,
                    outcome.error,
                    outcome.system_message,
                    *outcome.side_effects,
                ]
                for text in texts:
                    assert text is None or ("\x00" not in text and text.encode("utf-8"))
            json.dumps(events, ensure_ascii=False).encode("utf-8")
            await eventually(lambda: len(portal.calls) == len(outcomes))
            assert [body and body["detail"] for body in portal.seen("outcome")] == [
                "RuntimeError: a\ufffd\ufffdb"
            ]

    asyncio.run(run())


def test_entries_stay_on_disk_until_the_answer_says_that_all_of_them_were_taken() -> None:
    answers = [(202, {}), (202, None), (200, {"accepted": 1, "duplicates": 0}), (202, {"accepted": 0, "duplicates": 0}),
               (202, {"accepted": True, "duplicates": 0}), (202, {"accepted": 2, "duplicates": -1})]  # fmt: skip

    async def alter(status: int, body: Any, headers: dict[str, str]) -> Any:
        return (*answers.pop(0), headers) if answers else (status, body, headers)

    async def run() -> None:
        async with serve(manifest()) as (portal, runtime):
            portal.alters["calls"] = alter
            async with runtime.session("procurement") as session:
                await session.call_tool("oa__read", {}, execute=Tool())
                await eventually(lambda: not answers and runtime.call_log.waiting("procurement") == 0)
            assert len(portal.seen("calls")) == 7

    asyncio.run(run())
