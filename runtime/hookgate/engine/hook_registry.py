"""The hooks that one agent runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Iterable
from typing import Any

from hookgate.context import HookContext
from hookgate.engine.chains import Bound, Chains
from hookgate.engine.composition import run_chain
from hookgate.events import HookEvent
from hookgate.hook import Hook
from hookgate.result import MergedResult


class HookRegistry:
    """Declared hooks, which the portal sets, and hooks registered in code.

    Order: ascending priority; equal ones declared first, then as registered. ``failures`` counts, by
    hook, the failures that were let through.
    """

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        self._declared: tuple[Bound, ...] = ()
        self._registered: list[Bound] = []
        self._chains: Chains | None = None
        self.failures: Counter[str] = Counter()
        for hook in hooks:
            self.register(hook)

    def register(self, hook: Hook) -> None:
        """Add a hook; it runs from the next call on.

        Raises TypeError for what isn't a Hook, ValueError for a name that is registered already, and
        MatchError for a tool filter that does not compile.
        """
        bound = Bound.of_hook(hook)
        if any(other.name == bound.name for other in self._registered):
            raise ValueError(f"a hook named {bound.name!r} is registered already")
        self._registered.append(bound)
        self._chains = None

    def unregister(self, name: str) -> bool:
        """Take out a hook registered in code; False when there is none. Declared hooks stay."""
        kept = [bound for bound in self._registered if bound.name != name]
        removed = len(kept) < len(self._registered)
        self._registered = kept
        self._chains = None
        return removed

    def hooks(self, point: HookEvent | str) -> list[Hook]:
        """The hooks of a point, in the order in which they run."""
        return [bound.hook for bound in self.chains().at(HookEvent(point))]

    def __len__(self) -> int:
        return len(self._declared) + len(self._registered)

    def run(self, event: HookEvent | str, context: HookContext) -> Coroutine[Any, Any, MergedResult]:
        """Await it: run every hook of a point and merge what they say. Never raises for what a hook did."""
        if type(event) is not HookEvent:
            event = HookEvent(event)
        here = context if context.event is event else context.at(event)
        return run_chain(self.chains().select(event, context.tool_name), here, None, self.failures)

    def run_session_start(self, context: HookContext) -> Coroutine[Any, Any, MergedResult]:
        """`run` at SessionStart."""
        return self.run(HookEvent.SESSION_START, context)

    def run_pre_tool(self, context: HookContext) -> Coroutine[Any, Any, MergedResult]:
        """`run` at PreToolUse. ``modified_args`` is what the last rewrite left, None without one."""
        return self.run(HookEvent.PRE_TOOL_USE, context)

    def run_post_tool(self, context: HookContext) -> Coroutine[Any, Any, MergedResult]:
        """`run` at PostToolUse. ``modified_result`` is what the last rewrite left, None without one."""
        return self.run(HookEvent.POST_TOOL_USE, context)

    def declare(self, hooks: Iterable[Bound]) -> None:
        """Replace the declared hooks, as one. A call that has begun keeps the chains it has."""
        self._declared = tuple(hooks)
        self._chains = None

    def chains(self) -> Chains:
        """The ordered hooks of this moment."""
        if self._chains is None:
            self._chains = Chains((*self._declared, *self._registered))
        return self._chains
