"""Whatever a program may hold survives pickling, by every protocol, and copying, with all its fields."""

from __future__ import annotations

import asyncio
import copy
import importlib
import pickle
import pkgutil
from collections.abc import Callable
from typing import Any

import hookgate
import pytest
from hookgate import HookContext, HookResult, Outcome, OutcomeUnknown, ToolBlocked
from hookgate.addresses import NotAnAddress
from hookgate.canonical import NotCanonical
from hookgate.catalogue.entry import ParamsInvalid
from hookgate.catalogue.services import LimitVerdict
from hookgate.context import Subject, ToolFacts
from hookgate.loops import dag, react
from hookgate.registry.reading import ManifestInvalid
from hookgate.result import Blocked, MergedResult
from hookgate.wire.portal import Refused, Reply, Unreachable

from tests.runtime.gating import gated, pay

OUTCOME = Outcome(
    "oa__pay", "c1", "failed", "text", error="e", args={"a": [1]}, result={"x": 1}, confirmation_id="i",
    trace=[{"hook": "h", "outcome": "allowed", "ms": 1.0, "changed": ["args.a"]}], side_effects=["s"], stop=True,
)  # fmt: skip
# What each exception that takes more than a text is made with.
MADE: dict[type[BaseException], tuple[tuple[Any, ...], dict[str, Any]]] = {
    ToolBlocked: ((OUTCOME,), {}),
    NotAnAddress: ((), {}),
    Blocked: (("gate", "no"), {"status": "cancelled"}),
    NotCanonical: (("tool_args.x", "is no text"), {}),
    ManifestInvalid: (("hooks[1]", "is no hook"), {}),
    ParamsInvalid: (([{"path": "a", "code": "b", "message": "c"}],), {}),
    Unreachable: (("gone", 2.5), {"timed_out": True}),
    Refused: ((409, "halted", "stopped by ops"), {}),
}
WAYS: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    *(lambda one, n=n: pickle.loads(pickle.dumps(one, n)) for n in range(pickle.HIGHEST_PROTOCOL + 1)),
]


def exceptions() -> list[type[BaseException]]:
    """Every exception that the package defines."""
    found: set[type[BaseException]] = set()
    for module in pkgutil.walk_packages(hookgate.__path__, "hookgate."):
        if module.name.endswith("__main__"):
            continue
        for one in vars(importlib.import_module(module.name)).values():
            if (
                isinstance(one, type)
                and issubclass(one, BaseException)
                and one.__module__.startswith("hookgate.")
            ):
                found.add(one)
    return sorted(found, key=lambda one: one.__qualname__)


@pytest.mark.parametrize("kind", exceptions(), ids=lambda kind: kind.__qualname__)
def test_an_exception_keeps_its_fields(kind: type[BaseException]) -> None:
    args, kwargs = MADE.get(kind, (("text",), {}))
    made = kind(*args, **kwargs)
    made.add_note("a note")
    for way in WAYS:
        again = way(made)
        assert (type(again), str(again), vars(again)) == (kind, str(made), vars(made))
    assert str(made) != "()"


class Mine(OutcomeUnknown):
    def __init__(self, code: int, *, at: str) -> None:
        super().__init__(f"{code} at {at}")
        self.code, self.at = code, at


def test_so_does_one_that_a_tool_derives() -> None:
    for way in WAYS:
        again = way(Mine(504, at="bank"))
        assert (str(again), again.code, again.at) == ("504 at bank", 504, "bank")


class Extended(HookResult):
    extra: str = ""


CONTEXT = HookContext(
    "PreToolUse", "oa__pay", {"a": 1}, metadata={"call_id": "c"},
    tool=ToolFacts("oa__pay", "oa", "pay", True, False), subject=Subject({"id": "1"}, None),
)  # fmt: skip
RESULTS = [
    OUTCOME, HookResult(allow=False, error="no", modified_args={"a": 1}), Extended(error="x"),
    MergedResult(blocked_by="h", trace=OUTCOME.trace), ToolFacts("a", None, "a", True, True),
    LimitVerdict(True, 1, 0, 0.0),
    Reply(200, {"a": 1}, '"e"', 3, "x"), react.Reply("t", (react.ToolRequest("i", "n", {"a": 1}),)),
    react.Run([{"role": "user"}], [OUTCOME], "failed", "t", "r"), dag.Node("a", "t", {"x": 1}, ("b",), "g"),
    dag.NodeEnd("failed", "r", OUTCOME),
]  # fmt: skip


@pytest.mark.parametrize("made", RESULTS, ids=lambda made: type(made).__qualname__)
def test_a_result_keeps_its_fields(made: Any) -> None:
    for way in WAYS:
        again = way(made)
        assert again == made
        assert type(again) is type(made)


def test_a_context_can_be_copied_and_stays_read_only() -> None:
    CONTEXT.tool_args["a"] = 2
    for way in WAYS:
        again = way(CONTEXT)
        names = ("event", "tool_name", "metadata", "tool", "subject")
        assert [getattr(again, name) for name in names] == [getattr(CONTEXT, name) for name in names]
        assert again.tool_args == {"a": 1}
        with pytest.raises(AttributeError):
            again.tool_name = "x"


def test_what_a_real_call_comes_to_can_be_sent_to_another_process() -> None:
    async def run() -> None:
        async with gated() as (portal, session, tool):
            asking = pay(session, tool)
            (resource,) = await portal.pending()
            await portal.settle(resource["id"], "rejected")
            outcome = await asking
            with pytest.raises(ToolBlocked) as raised:
                outcome.raise_if_blocked()
            for way in WAYS:
                assert way(raised.value).outcome == outcome

    asyncio.run(run())
