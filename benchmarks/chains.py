"""What a chain of hooks costs beside awaiting the same async functions bare."""

import asyncio

from hookgate import HookContext, HookRegistry, HookResult, PreToolUseHook

from benchmarks.measure import Figure, alternate, typical

ROUNDS = 7
SECONDS = 0.06


class Trivial(PreToolUseHook):
    """Looks at nothing and lets everything pass."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def execute(self, ctx: HookContext) -> HookResult:
        """The default answer."""
        return HookResult()


def run() -> list[Figure]:
    """Chains of 1, 5 and 20 hooks, in microseconds a chain; time bound and trace included."""
    return [_figure(size) for size in (1, 5, 20)]


def _figure(size: int) -> Figure:
    hooks = [Trivial(f"hook-{index}") for index in range(size)]
    registry = HookRegistry()
    for hook in hooks:
        registry.register(hook)
    ours, baseline = alternate(
        lambda: asyncio.run(_chain(registry)), lambda: asyncio.run(_bare(hooks)), rounds=ROUNDS
    )
    allowance = 5 + size
    return Figure(
        f"chain_of_{size}",
        ours,
        baseline,
        "µs",
        f"ours − baseline ≤ {allowance} µs",
        met=ours - baseline <= allowance,
    )


async def _chain(registry: HookRegistry) -> float:
    context = HookContext("PreToolUse", tool_name="oa__purchase_pay", tool_args={"amount": 1})
    return await typical(lambda: registry.run_pre_tool(context), seconds=SECONDS)


async def _bare(hooks: list[Trivial]) -> float:
    context = HookContext("PreToolUse", tool_name="oa__purchase_pay", tool_args={"amount": 1})

    async def await_each() -> None:
        for hook in hooks:
            await hook.execute(context)

    return await typical(await_each, seconds=SECONDS)
