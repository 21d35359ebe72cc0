"""The base classes of hooks written in Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from hookgate.context import HookContext
from hookgate.events import BLOCKING_POINTS, HookEvent
from hookgate.result import HookResult


class Hook(ABC):
    """Code that runs at one or more hook points.

    ``priority``: lower runs earlier. ``tool_filter``: a case-sensitive glob over tool names.
    ``on_error``: what an exception, a time-out or a wrong result means; None is ``deny`` where a hook
    can block and ``allow`` elsewhere. ``timeout_seconds``: None takes the runtime's default.
    """

    points: ClassVar[tuple[HookEvent, ...]] = ()
    waits_for_people: ClassVar[bool] = False
    closes_calls: ClassVar[bool] = False
    name: str = ""
    description: str = ""
    priority: int = 50
    tool_filter: str | None = None
    on_error: Literal["deny", "allow"] | None = None
    timeout_seconds: float | None = None

    def should_trigger(self, ctx: HookContext) -> bool:
        """Whether to run; asked after the filters, on the arguments as rewritten so far."""
        return True

    @abstractmethod
    async def execute(self, ctx: HookContext) -> HookResult:
        """Look, and answer."""

    def failure_policy(self, event: HookEvent) -> Literal["deny", "allow"]:
        """What a failure of this hook at ``event`` means."""
        return self.on_error or ("deny" if event in BLOCKING_POINTS else "allow")


class PreToolUseHook(Hook):
    """Runs before a tool: may block the call and rewrite its arguments."""

    points = (HookEvent.PRE_TOOL_USE,)


class PostToolUseHook(Hook):
    """Runs after a tool has returned: may rewrite what the model gets to see."""

    points = (HookEvent.POST_TOOL_USE,)


class SessionStartHook(Hook):
    """Runs before the first prompt: may add text to it."""

    points = (HookEvent.SESSION_START,)
