"""Every way in which a tool can end, in every shape that a function has, in both runtimes, free and gated.

The table says what each way comes to; the sweep plays it. An ordinary run plays each way in a few shapes, `make soak`
in all of them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from hookgate import Outcome, OutcomeUnknown, SyncRuntime, by_name

from tests.runtime.documents import manifest
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.harness import FAST, serve
from tests.runtime.test_sync import sync_portal
from tests.soak import counts

__all__ = ["sync_portal"]

Body = Callable[[], Any]


class Way(NamedTuple):
    """How a tool ends: what its body does, the status that comes of it, the word for the portal, and what the
    observation has in it."""

    name: str
    body: Body
    status: str
    said: str
    reads: str


def throw(error: Any) -> Body:
    def body() -> Any:
        raise error() if isinstance(error, type) or callable(error) else error

    return body


class Odd(BaseException):
    """Not an Exception."""


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


def read_timeout() -> Any:
    try:
        raise TimeoutError("the socket")
    except TimeoutError as error:
        raise httpx.ReadTimeout("slow") from error


def while_handling() -> Any:
    try:
        raise TimeoutError("the socket")
    except TimeoutError:
        raise ValueError("on the way out")  # noqa: B904  (the context is what this is about)


def handled() -> Any:
    try:
        raise TimeoutError("the look-up, before anything was paid")
    except TimeoutError:
        raise ValueError("not even begun") from None


def steps(*items: Any, fail: BaseException | None = None) -> Iterator[Any]:
    yield from items
    if fail is not None:
        raise fail


async def later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value() if callable(value) else value


async def asteps(*items: Any) -> Any:
    for item in items:
        await asyncio.sleep(0)
        yield item


class Awaitable:
    def __await__(self) -> Any:
        yield
        return "awaited"


class Rows:
    """A cursor: an iterator of one's own."""

    def __init__(self) -> None:
        self.rows = iter([1, 2])

    def __iter__(self) -> Rows:
        return self

    def __next__(self) -> int:
        return next(self.rows)


class Pages:
    """Something that can only be read by `async for`."""

    async def __aiter__(self) -> Any:
        yield "page"


def pooled() -> Any:
    return concurrent.futures.ThreadPoolExecutor(1).submit(lambda: "pooled")


FAILED, UNKNOWN, TIMED_OUT = ("failed", "failed"), ("unknown", "unknown"), ("timed_out", "unknown")
OK = ("succeeded", "succeeded")
WAYS = [
    Way("value", lambda: "done", *OK, "done"),
    Way("none", lambda: None, *OK, "null"),
    Way("ValueError", throw(ValueError("no")), *FAILED, "ValueError: no"),
    Way("SystemExit", throw(SystemExit(2)), *FAILED, "SystemExit: 2"),
    Way("sys.exit", lambda: sys.exit("usage: pay"), *FAILED, "SystemExit: usage: pay"),
    Way("KeyboardInterrupt", throw(KeyboardInterrupt), *FAILED, "KeyboardInterrupt"),
    Way("GeneratorExit", throw(GeneratorExit), *FAILED, "GeneratorExit"),
    Way("CancelledError", throw(asyncio.CancelledError), *FAILED, "CancelledError"),
    Way("StopIteration", throw(StopIteration("x")), *FAILED, "StopIteration"),
    Way("StopAsyncIteration", throw(StopAsyncIteration), *FAILED, "StopAsyncIteration"),
    Way("Odd", throw(Odd("odd")), *FAILED, "Odd: odd"),
    Way("Mute", throw(Mute), *FAILED, "Mute"),
    Way("group", throw(lambda: ExceptionGroup("two", [ValueError("a"), KeyError("b")])), *FAILED, "ExceptionGroup"),
    Way("base group", throw(lambda: BaseExceptionGroup("x", [SystemExit(1)])), *FAILED, "BaseExceptionGroup"),
    Way("TimeoutError", throw(TimeoutError("slow")), *TIMED_OUT, "TimeoutError: slow"),
    Way("subclass of it", throw(type("BankTimeout", (TimeoutError,), {})), *TIMED_OUT, "BankTimeout"),
    Way("in a group", throw(lambda: ExceptionGroup("g", [ValueError(), TimeoutError()])), *TIMED_OUT, "ExceptionGroup"),
    Way("raised from it", read_timeout, *TIMED_OUT, "ReadTimeout: slow"),
    Way("while handling it", while_handling, *TIMED_OUT, "ValueError: on the way out"),
    Way("after handling it", handled, *FAILED, "ValueError: not even begun"),
    Way("OutcomeUnknown", throw(OutcomeUnknown("no answer")), *UNKNOWN, "OutcomeUnknown: no answer"),
    Way("surrogate", throw(ValueError("a\ud800\x00b")), *FAILED, "ValueError: a\ufffd\ufffdb"),
    Way("coroutine", lambda: later("done"), *OK, "done"),
    Way("awaitable", Awaitable, *OK, "awaited"),
    Way("coroutine that exits", lambda: later(lambda: sys.exit(4)), *FAILED, "SystemExit: 4"),
    Way("generator", lambda: steps(1, 2), *OK, "[1, 2]"),
    Way("generator that fails", lambda: steps(1, fail=TimeoutError("half")), *TIMED_OUT, "TimeoutError: half"),
    Way("generator that exits", lambda: steps(1, fail=SystemExit(5)), *FAILED, "SystemExit: 5"),
    Way("async generator", lambda: asteps("a", "b"), *OK, '["a", "b"]'),
    Way("map", lambda: map(str, [1, 2]), *OK, '["1", "2"]'),
    Way("cursor", Rows, *OK, "[1, 2]"),
    Way("pages", Pages, *OK, '["page"]'),
    Way("coroutine of a generator", lambda: later(lambda: steps(1)), *OK, "[1]"),
    Way("generator of coroutines", lambda: (later(n) for n in (1, 2)), *OK, "[1, 2]"),
    Way("list of coroutines", lambda: [later(1), {"a": (later(2),)}], *OK, '[1, {"a": [2]}]'),
    Way("pool's future", pooled, *OK, "pooled"),
    Way("function", lambda: functools.partial(print, "x"), *FAILED, "the tool has not run"),
    Way("endless", lambda: itertools.repeat("x"), *UNKNOWN, "has no end"),
]  # fmt: skip


def plain(body: Body) -> Any:
    return lambda args: body()


def straight(body: Body) -> Any:
    async def tool(args: Any) -> Any:
        return body()

    return tool


def waiting(body: Body) -> Any:
    async def tool(args: Any) -> Any:
        await asyncio.sleep(0)
        return body()

    return tool


def wrapped(body: Body) -> Any:
    tool = waiting(body)
    return lambda args: tool(args)


def partial(body: Body) -> Any:
    return functools.partial(lambda first, args: body(), 1)


def object_(body: Body) -> Any:
    class Tool:
        def __call__(self, args: Any) -> Any:
            return body()

    return Tool()


def async_object(body: Body) -> Any:
    class Tool:
        async def __call__(self, args: Any) -> Any:
            await asyncio.sleep(0)
            return body()

    return Tool()


def method(body: Body) -> Any:
    class Tools:
        def pay(self, args: Any) -> Any:
            return body()

    return Tools().pay


def named(body: Body) -> Any:
    return by_name(lambda amount: body())


def named_async(body: Body) -> Any:
    async def pay(*, amount: int) -> Any:
        await asyncio.sleep(0)
        return body()

    return by_name(functools.partial(pay))


SHAPES = [plain, straight, waiting, wrapped, partial, object_, async_object, method, named, named_async]


def pick() -> list[tuple[Way, Any]]:
    """Each way in every shape, or in three of them, so that each shape meets a third of the ways."""
    if counts.SOAK:
        return list(itertools.product(WAYS, SHAPES))
    pairs = enumerate(itertools.product(WAYS, SHAPES))
    return [(way, shape) for index, (way, shape) in pairs if index % 10 % 4 == index // 10 % 4]


def judge(way: Way, shape: Any, outcome: Outcome, portal: FakePortal, gated: bool) -> str | None:
    """What is wrong with an outcome."""
    async_code = shape in (straight, waiting, wrapped, async_object, named_async)
    if way.name in ("StopIteration", "StopAsyncIteration") and async_code:
        # Python itself makes another error of it.
        way = way._replace(reads="StopIteration" if way.name == "StopIteration" else "")
    outcome.observation.encode("utf-8")
    found: tuple[Any, ...] = (outcome.status, outcome.blocked, way.reads in outcome.observation)
    if found != (way.status, False, True):
        return f"{way.name} as {shape.__name__}: {outcome.status} {outcome.observation[:200]}"
    return None


def reported(portal: FakePortal, calls: dict[str, Way]) -> list[str]:
    by_id = {item["tool_call_id"]: item["outcome"] for item in portal.confirmations.values()}
    return [f"{way.name}: {by_id.get(id_)}" for id_, way in calls.items() if by_id.get(id_) != way.said]


def approve(resource: Any) -> None:
    resource.update(status="approved")


@pytest.mark.parametrize("tool", ["oa__read", "oa__purchase_pay"])
def test_each_way_to_end_comes_to_what_the_table_says(tool: str) -> None:
    wrong: list[str | None] = []
    calls: dict[str, Way] = {}

    async def run() -> None:
        async with serve(manifest(), timeout=5.0) as (portal, runtime):
            portal.on_create = approve
            async with runtime.session("procurement") as session:
                for way, shape in pick():
                    name = f"{way.name} {shape.__name__}"
                    calls[name] = way
                    outcome = await session.call_tool(
                        tool, {"amount": 1}, execute=shape(way.body), tool_call_id=name
                    )
                    wrong.append(judge(way, shape, outcome, portal, tool == "oa__purchase_pay"))
        if tool == "oa__purchase_pay":
            wrong.extend(reported(portal, calls))

    asyncio.run(run())
    assert [one for one in wrong if one] == []
    assert len(calls) >= 2 * len(WAYS)


@pytest.mark.parametrize("tool", ["oa__read", "oa__purchase_pay"])
def test_the_sync_runtime_ends_each_way_alike(sync_portal: FakePortal, tool: str) -> None:
    sync_portal.publish(manifest())
    sync_portal.on_create = approve
    wrong: list[str | None] = []
    calls: dict[str, Way] = {}
    with (
        SyncRuntime(sync_portal.url, KEY, pacing=FAST, name="worker-1") as runtime,
        runtime.session("procurement") as session,
    ):
        for way, shape in pick():
            name = f"{way.name} {shape.__name__}"
            calls[name] = way
            outcome = session.call_tool(tool, {"amount": 1}, execute=shape(way.body), tool_call_id=name)
            wrong.append(judge(way, shape, outcome, sync_portal, tool == "oa__purchase_pay"))
    if tool == "oa__purchase_pay":
        wrong.extend(reported(sync_portal, calls))
    assert [one for one in wrong if one] == []
