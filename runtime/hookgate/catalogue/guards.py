"""The hooks that every agent has: the gate, the read-only guard, the call log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate.context import HookContext
from hookgate.events import HookEvent
from hookgate.hook import Hook
from hookgate.result import HookResult

if TYPE_CHECKING:
    from hookgate.catalogue.services import HookServices
    from hookgate.spec import HookSpec


class ApprovalGate(Hook):
    """Suspends a call until people have decided. Whether it fires is the session's to judge, because
    that depends on the agent's settings; here it only asks."""

    points = (HookEvent.PRE_TOOL_USE,)
    waits_for_people = True

    def __init__(self, spec: HookSpec, services: HookServices) -> None:
        self.name = spec.name
        self._services = services

    async def execute(self, ctx: HookContext) -> HookResult:
        return await self._services.request_approval(ctx)


class ReadOnlyGuard(Hook):
    """Blocks every tool that writes while the organization is in read-only mode."""

    points = (HookEvent.PRE_TOOL_USE,)

    def __init__(self, spec: HookSpec, services: HookServices) -> None:
        self.name = spec.name
        self._services = services

    async def execute(self, ctx: HookContext) -> HookResult:
        # A tool that nobody has described counts as one that writes.
        if self._services.read_only and (ctx.tool is None or ctx.tool.writes):
            return HookResult(
                allow=False,
                error="the organization is in read-only mode and this tool writes",
                side_effects=[f"{self.name}: blocked {ctx.tool_name}"],
            )
        return HookResult()


class AuditLog(Hook):
    """Writes one call-log entry per connector call, whatever ended it.

    Before a tool it only makes sure that its entry can be kept; the call itself marks its start, right
    before the tool. The entry is written last of all, when the call's outcome is known.
    """

    points = (
        HookEvent.PRE_TOOL_USE,
        HookEvent.POST_TOOL_USE,
        HookEvent.POST_TOOL_USE_FAILURE,
        HookEvent.PERMISSION_DENIED,
    )
    closes_calls = True

    def __init__(self, spec: HookSpec, services: HookServices) -> None:
        self.name = spec.name
        self._services = services
        services.set_call_log(
            max_queued=spec.params["max_queued"],
            redact=tuple(spec.params["redact"]),
            results=spec.params["results"],
        )

    async def execute(self, ctx: HookContext) -> HookResult:
        if ctx.event is not HookEvent.PRE_TOOL_USE:
            self._services.record_call(ctx)
        elif obstacle := self._services.check_call_log():
            return HookResult(allow=False, error=obstacle)
        return HookResult()
