"""Each entry of the trace has the time of its own hook, whatever the others took."""

import asyncio

import pytest
from hookgate import HookContext, HookEvent, HookRegistry, HookResult, PreToolUseHook
from hookgate.engine import composition


class Clock:
    """Seconds that pass only when somebody lets them."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Takes(PreToolUseHook):
    """Takes ``seconds``; looks for ``looks`` before it lets itself be skipped."""

    def __init__(
        self, clock: Clock, name: str, seconds: float, *, looks: float = 0.0, runs: bool = True
    ) -> None:
        self.clock, self.name, self.seconds, self.looks, self.runs = clock, name, seconds, looks, runs

    async def execute(self, ctx: HookContext) -> HookResult:
        """Let everything pass, later."""
        self.clock.now += self.seconds
        return HookResult()


class Abstains(Takes):
    """As above, asked first."""

    def should_trigger(self, ctx: HookContext) -> bool:
        """Whether it runs."""
        self.clock.now += self.looks
        return self.runs


def test_what_others_took_is_not_told_of_a_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(composition, "perf_counter", clock)
    hooks = [
        Takes(clock, "first", 1.0),
        Abstains(clock, "skipped", 50.0, looks=20.0, runs=False),
        Takes(clock, "second", 2.0),
        Abstains(clock, "asked", 4.0, looks=8.0),
        Takes(clock, "last", 0.5),
    ]
    context = HookContext("PreToolUse", tool_name="oa__pay", tool_args={})
    trace = asyncio.run(HookRegistry(hooks).run_pre_tool(context)).trace
    assert [(entry["hook"], entry["ms"]) for entry in trace] == [
        ("first", 1000.0),
        ("second", 2000.0),
        ("asked", 12_000.0),
        ("last", 500.0),
    ]


def test_a_condition_that_says_no_takes_nothing_from_the_next_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(composition, "perf_counter", clock)

    def slow(*_: object) -> bool:
        clock.now += 30.0
        return False

    monkeypatch.setattr(composition, "_matches", slow)
    registry = HookRegistry([Takes(clock, "conditional", 1.0), Takes(clock, "next", 2.0)])
    first = registry.chains().select(HookEvent.PRE_TOOL_USE, "oa__pay")[0]
    object.__setattr__(first, "asks_context", True)
    object.__setattr__(first, "is_plain", False)
    context = HookContext("PreToolUse", tool_name="oa__pay", tool_args={})
    trace = asyncio.run(registry.run_pre_tool(context)).trace
    assert [(entry["hook"], entry["ms"]) for entry in trace] == [("next", 2000.0)]
