"""What declared hooks that don't match cost, and what a condition costs beside evaluating it bare."""

import asyncio
from collections.abc import Callable
from typing import Any

import cel
from hookgate import HookContext, HookEvent, HookRegistry
from hookgate.engine.chains import Bound
from hookgate.matching.matching import compile_condition, compile_tool_filter

from benchmarks.chains import Trivial
from benchmarks.measure import Figure, alternate, typical

ROUNDS = 7
SECONDS = 0.06
EXPRESSION = "args.amount >= 50000"
TOOL = "oa__purchase_pay"
KIBIBYTE = 1024
# As JSON 256 KiB.
NUMBERS: dict[str, Any] = {"amount": 60_000, "list": [1] * (127 * KIBIBYTE)}


def run() -> list[Figure]:
    """1 among 1,000; 100 conditions on 100 tools; 256 KiB of arguments, as one text and as many numbers."""
    return [
        _among_1000(),
        _conditions_on_100_tools(),
        _large("condition_on_256_KiB_of_text", {"amount": 60_000, "text": "x" * (255 * KIBIBYTE)}),
        _large("condition_on_256_KiB_of_numbers", NUMBERS),
        _reading(),
        _nested(),
    ]


def declare(count: int, *, when: str | None = None) -> HookRegistry:
    """``count`` hooks, each on a tool of its own; the first one's is `TOOL`."""
    names = [TOOL, *(f"connector_{index}__action" for index in range(1, count))]
    registry = HookRegistry()
    registry.declare(
        Bound(
            hook=Trivial(name),
            name=name,
            points=(HookEvent.PRE_TOOL_USE,),
            priority=500,
            timeout=30.0,
            matches_tool=compile_tool_filter(name[:-1] + "?"),
            condition=compile_condition(when) if when else None,
        )
        for name in names
    )
    return registry


def _among_1000() -> Figure:
    ours, baseline = alternate(_chain(declare(1000)), _chain(declare(1)), rounds=ROUNDS)
    return Figure(
        "one_match_among_1000", ours, baseline, "µs", "ratio ≤ 1.5 (1 among 1)", met=ours <= 1.5 * baseline
    )


def _conditions_on_100_tools() -> Figure:
    args = {"amount": 60_000}
    ours, baseline = alternate(_chain(declare(100, when=EXPRESSION), args), _bare(args), rounds=ROUNDS)
    return Figure(
        "conditions_on_100_tools",
        ours,
        baseline,
        "µs",
        "ours ≤ 1.5 × baseline + 10 µs (the expression bare)",
        met=ours <= 1.5 * baseline + 10,
    )


def _large(name: str, args: dict[str, Any]) -> Figure:
    ours, baseline = alternate(_chain(declare(1, when=EXPRESSION), args), _bare(args), rounds=ROUNDS)
    return Figure(name, ours / 1000, baseline / 1000, "ms", "ours ≤ 20 ms", met=ours <= 20_000)


def _reading() -> Figure:
    """All of 131,000 numbers: what the evaluator takes to read them is its own."""
    when = "size(args.list) > 1 && args.amount >= 50000"
    ours, baseline = alternate(_chain(declare(1, when=when), NUMBERS), _bare(NUMBERS, when), rounds=ROUNDS)
    return Figure(
        "condition_reading_131000_numbers",
        ours / 1000,
        baseline / 1000,
        "ms",
        "ratio ≤ 1.5 (the expression bare)",
        met=ours <= 1.5 * baseline,
    )


def _nested() -> Figure:
    """Just below the bound on a condition's work, which nothing can interrupt: an agent's loop stands still so long."""
    walked = {"to": ["a"] * 1000, "blocked": ["b"] * 1000}
    when = "args.to.exists(i, args.blocked.exists(b, b == i))"
    condition = compile_condition(when, (("args.to", "args.blocked"),))

    async def evaluate() -> None:
        condition.evaluate({"args": walked})

    def ours() -> float:
        return asyncio.run(typical(evaluate, seconds=SECONDS, batch=1))

    longest, baseline = alternate(ours, _bare(walked, when, batch=1), rounds=1)
    return Figure(
        "longest_condition_below_the_bound",
        longest / 1000,
        baseline / 1000,
        "ms",
        "ours ≤ 1,500 ms (the expression bare)",
        met=longest <= 1_500_000,
    )


def _chain(registry: HookRegistry, args: dict[str, Any] | None = None) -> Callable[[], float]:
    context = HookContext("PreToolUse", tool_name=TOOL, tool_args=args or {"amount": 1})
    return lambda: asyncio.run(typical(lambda: registry.run_pre_tool(context), seconds=SECONDS))


def _bare(args: dict[str, Any], when: str = EXPRESSION, *, batch: int = 5) -> Callable[[], float]:
    program = cel.compile(when)

    async def evaluate() -> None:
        program.execute({"args": args})

    return lambda: asyncio.run(typical(evaluate, seconds=SECONDS, batch=batch))
