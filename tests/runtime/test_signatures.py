"""Which functions can take what a tool gets, and `by_name` for the others."""

import asyncio
import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NewType, Optional, TypedDict, TypeVar, Union

import pydantic
import pytest
from hookgate import HookContext, HookResult, PreToolUseHook, SyncRuntime, by_name
from hookgate.loops import dag, react

from tests.runtime.documents import evaluation, manifest
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.gating import always, gated
from tests.runtime.harness import FAST, Tool, serve
from tests.runtime.test_sync import sync_portal

__all__ = ["sync_portal"]


@dataclasses.dataclass
class Order:
    amount: int


class Form(pydantic.BaseModel):
    amount: int


class Shape(TypedDict):
    amount: int


class Bag(dict[str, Any]):
    pass


Account = NewType("Account", str)
Args = NewType("Args", dict[str, Any])
Text = TypeVar("Text", bound=str)


def written(annotation: Any) -> Callable[..., Any]:
    def tool(value) -> Any:
        return "ran"

    tool.__annotations__["value"] = annotation
    return tool


class Tools:
    def text(self, account: str) -> str:
        return "ran"

    def good(self, args: dict[str, Any]) -> str:
        return "ran"

    def __call__(self, amount: int, note: str) -> str:
        return "ran"

    @staticmethod
    def static(account: str) -> str:
        return "ran"

    @classmethod
    def made(cls, args: Mapping[str, Any]) -> str:
        return "ran"


def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def around(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return around


def text(account: str) -> str:
    return "ran"


def good(args: dict[str, Any], *, note: str = "", **more: Any) -> str:
    return "ran"


def nothing() -> str:
    return "ran"


def two(a: Any, b: Any) -> str:
    return "ran"


def keywords(*, amount: int) -> str:
    return "ran"


def needs_more(args: Any, *, amount: int) -> str:
    return "ran"


async def later(order: Order) -> str:
    return "ran"


def local() -> Any:
    class Inner(pydantic.BaseModel):
        x: int

    def tool(form: "Inner") -> str:
        return str(Inner)

    return tool


# ruff: noqa: UP007, UP045  (people write annotations in every way)
REFUSED: list[Any] = [
    *map(written, [
        str, int, float, bool, bytes, list, tuple, set, None, type(None), Order, Form, "str", "Order", "'str'", "Form",
        "Optional[str]", "list[int]", Optional[int], Union[str, Order], int | None, list[int], tuple[str, ...],
        set[str], Annotated[str, "an account"], "Annotated[Form, 1]", Account, Text, Optional[Annotated[Account, 1]],
    ]),
    nothing, two, keywords, needs_more, later, text, Tools().text, Tools(), Tools.static, local(),
    decorate(text), decorate(two), functools.partial(two), functools.partial(text), functools.partial(text, "x"),
    lambda: "ran", lambda a, b: "ran", None, 3, "good",
]  # fmt: skip
FIT: list[Any] = [
    *map(written, [
        dict, "dict", dict[str, Any], Mapping, Mapping[str, Any], Any, object, Shape, Bag, Args, dict | None,
        Optional[dict[str, Any]], Union[str, dict[str, Any]], Annotated[dict[str, Any], 1], "Unknown",
        "a.b.C", "1 +", TypeVar("T"), Callable, "dict[str, Missing]",
    ]),
    good, Tools().good, Tools.made, decorate(good), functools.partial(two, 1), functools.partial(good, note="x"),
    lambda args: "ran", lambda *args: "ran", lambda args, more=1: "ran", len, dict, operator.itemgetter("amount"),
    print,
]  # fmt: skip


def test_a_function_that_can_not_take_a_dict_is_refused_before_anybody_is_asked(
    sync_portal: FakePortal,
) -> None:
    async def run() -> None:
        async with gated() as (portal, session, _):
            for tool in REFUSED:
                with pytest.raises(TypeError, match=r"by_name|must be a function"):
                    await session.call_tool("oa__purchase_pay", {"amount": 1}, execute=tool)
            assert (portal.confirmations, session.hooks.failures) == ({}, {})
            for tool in FIT:
                outcome = await session.call_tool("oa__read", {"amount": 1}, execute=tool)
                assert outcome.status == "succeeded", (tool, outcome.error)

    asyncio.run(run())
    sync_portal.publish(manifest())
    with (
        SyncRuntime(sync_portal.url, KEY, pacing=FAST, name="w") as runtime,
        runtime.session("procurement") as session,
    ):
        for tool in REFUSED:
            with pytest.raises(TypeError):
                session.call_tool("oa__purchase_pay", {"amount": 1}, execute=tool)
    assert sync_portal.confirmations == {}


def named(amount: int, note: str = "-", *, to: str = "x", _token: str = "t") -> str:
    return f"{amount} {note} {to} {_token}"


async def named_later(amount: int, **more: Any) -> Any:
    await asyncio.sleep(0)
    return [amount, more]


class Bank:
    def pay(self, amount: int) -> int:
        return amount


@pytest.mark.parametrize(
    ("function", "args", "result"),
    [
        (named, {"amount": 1}, "1 - x t"), (named, {"amount": 1, "note": "n", "to": "y"}, "1 n y t"),
        (named_later, {"amount": 1, "more": 2}, [1, {"more": 2}]), (Bank().pay, {"amount": 3}, 3),
        (functools.partial(named, to="z"), {"amount": 1}, "1 - z t"),
        (functools.partial(named, 5), {"note": "n"}, "5 n x t"),
        (decorate(named), {"amount": 2}, "2 - x t"), (Order, {"amount": 4}, Order(4)),
        (by_name(named), {"amount": 1}, "1 - x t"),
        (lambda: "none", {}, "none"),
    ],
)  # fmt: skip
def test_arguments_are_handed_over_by_name(function: Any, args: dict[str, Any], result: Any) -> None:
    async def run() -> None:
        async with gated() as (_, session, _tool):
            outcome = await session.call_tool("oa__read", args, execute=by_name(function))
            assert outcome.result == result

    asyncio.run(run())


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (named, {"amount": 1, "accout": "x"}), (named, {"amount": 1, "_token": "mine"}), (named, {"": 1}),
        (named_later, {"amount": 1, "_x": 1}), (functools.partial(named, to="acme"), {"amount": 1, "to": "evil"}),
        (functools.partial(named_later, 1, tenant="a"), {"tenant": "b"}), (lambda: 1, {"x": 1}),
        (Bank().pay, {"self": 1}),
    ],
)  # fmt: skip
def test_arguments_that_the_function_has_not_are_a_type_error_before_anybody_is_asked(
    function: Any, args: dict[str, Any], sync_portal: FakePortal
) -> None:
    async def run() -> None:
        async with gated() as (portal, session, _):
            with pytest.raises(TypeError, match="has no argument"):
                await session.call_tool("oa__purchase_pay", args, execute=by_name(function))
            assert portal.confirmations == {}

    asyncio.run(run())


def positional(amount: int, /) -> int:
    return amount


def hidden(_amount: int) -> int:
    return _amount


@pytest.mark.parametrize("function", [None, 3, positional, hidden, dict, "named"])
def test_what_can_not_be_called_by_name_is_refused_at_once(function: Any) -> None:
    with pytest.raises(TypeError, match="by_name"):
        by_name(function)


class Rewrites(PreToolUseHook):
    name = "rewrites"

    def __init__(self, args: dict[str, Any]) -> None:
        self.args = args

    async def execute(self, ctx: HookContext) -> HookResult:
        return HookResult(modified_args=self.args)


@pytest.mark.parametrize("args", [{}, {"amount": 1, "other": 2}, {"amount": 1, "_token": "x"}])
def test_nobody_is_asked_about_arguments_that_a_hook_has_made_unfit(args: dict[str, Any]) -> None:
    async def run() -> None:
        async with gated() as (portal, session, _):
            session.hooks.register(Rewrites(args))
            outcome = await session.call_tool("oa__purchase_pay", {"amount": 1}, execute=by_name(named))
            assert (outcome.blocked_by, portal.confirmations) == ("arguments", {})

    asyncio.run(run())


def test_the_model_is_told_and_nobody_is_asked_in_the_loops() -> None:
    calls = iter([{"accout": 1}, {"amount": 2}])
    read: list[Any] = []

    async def model(messages: Any) -> react.Reply:
        read[:] = messages
        args = next(calls, None)
        if args is None:
            return react.Reply("done")
        return react.Reply(tool_calls=(react.ToolRequest(f"c{args}", "oa__purchase_pay", args),))

    async def run() -> None:
        async with gated() as (portal, session, _):
            always(portal)
            tools = {"oa__purchase_pay": by_name(named)}
            ended = await react.run(session, "pay", model=model, tools=tools)
            told = [message["content"] for message in ended.messages if message["role"] == "tool"]
            assert "no argument 'accout'" in told[0]
            assert (told[1], len(portal.confirmations), ended.ended) == ("2 - x t", 1, "answered")
            wrong_tools: Any = {"t": text}
            for wrong in (react.run(session, "x", model=model, tools=wrong_tools),
                          dag.run(session, [], tools=wrong_tools)):  # fmt: skip
                with pytest.raises(TypeError, match="by_name"):
                    await wrong
            ends = await dag.run(session, [dag.Node("a", "oa__purchase_pay", {"x": 1})], tools=tools)
            assert (ends["a"].status, "no argument 'x'" in (ends["a"].reason or "")) == ("failed", True)

    asyncio.run(run())


def test_a_stub_is_looked_at_when_the_session_is_made() -> None:
    async def run() -> None:
        async with serve(evaluation()) as (_, runtime):
            wrong: Any = {"oa__purchase_pay": text}
            with pytest.raises(TypeError, match="by_name"):
                runtime.session("procurement", surface="eval", stubs=wrong)
            stubs = {"oa__purchase_pay": by_name(named)}
            async with runtime.session("procurement", surface="eval", stubs=stubs) as session:
                outcome = await session.call_tool("oa__purchase_pay", {"amount": 1}, execute=Tool())
                assert outcome.result == "1 - x t"

    asyncio.run(run())
