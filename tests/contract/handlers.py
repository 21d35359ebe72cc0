"""Handlers that the registries of ``files/hooks.yaml`` name."""

from hookgate import HookContext, HookResult

seen: list[HookContext] = []


def note(ctx: HookContext) -> HookResult:
    """Keeps what it was told."""
    seen.append(ctx)
    return HookResult()


async def allow(ctx: HookContext) -> HookResult:
    """Lets everything pass."""
    return HookResult()


def break_down(ctx: HookContext) -> HookResult:
    """Raises."""
    raise RuntimeError("broken")


def answer_nonsense(ctx: HookContext) -> HookResult:
    """Gives a result of the wrong type."""
    return "yes"  # type: ignore[return-value]
