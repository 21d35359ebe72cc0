"""The hooks that add or send text: session_context and notify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hookgate.catalogue.services import fill
from hookgate.context import HookContext
from hookgate.events import HookEvent
from hookgate.hook import Hook
from hookgate.result import HookResult

if TYPE_CHECKING:
    from hookgate.catalogue.services import HookServices
    from hookgate.spec import HookSpec


# Seconds for which a call waits for a notice that it doesn't depend on.
PATIENCE: Final = 1.0


class SessionContext(Hook):
    """Puts a text into the first prompt."""

    points = (HookEvent.SESSION_START,)

    def __init__(self, spec: HookSpec, services: HookServices) -> None:
        self.name = spec.name
        self._text: str = spec.params["text"]
        self._services = services

    async def execute(self, ctx: HookContext) -> HookResult:
        return HookResult(additional_context=fill(self._text, self._services.placeholders()))


class Notify(Hook):
    """Sends a plain notice to a channel."""

    points = tuple(HookEvent)

    def __init__(self, spec: HookSpec, services: HookServices) -> None:
        self.name = spec.name
        self._channel: str = spec.params["channel"]
        self._text: str = spec.params["text"]
        self._services = services
        # What only looks on must send nothing: people would take it for the real notice.
        self._sends = spec.mode == "enforce"
        self._patience = PATIENCE if spec.on_error == "allow" else None

    async def execute(self, ctx: HookContext) -> HookResult:
        if not self._sends:
            return HookResult()
        values = {
            **self._services.placeholders(),
            "event": ctx.event,
            "tool": ctx.tool_name,
            "reason": ctx.reason or ctx.error or "",
        }
        text = fill(self._text, values).strip()
        taken = await self._services.send_notice(channel=self._channel, text=text, patience=self._patience)
        way = "" if taken else ", on its way"
        return HookResult(side_effects=[f"{self.name}: notice to {self._channel}{way}"])
