"""An agent hands work to another agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

from hookgate.events import HookEvent
from hookgate.result import MergedResult

if TYPE_CHECKING:
    from hookgate.session import Session

MAX_DEPTH: Final = 5

# The approved request for which the running tool acts: what it delegates is asked for on its behalf.
_acting_for: ContextVar[str | None] = ContextVar("hookgate_acting_for", default=None)


@contextmanager
def under(request_id: str | None) -> Iterator[None]:
    """Run a tool on behalf of an approved request, if there is one."""
    token = _acting_for.set(request_id)
    try:
        yield
    finally:
        _acting_for.reset(token)


class DelegationRefused(Exception):
    """The delegate may not, or can't, run. An agent whose hooks can't be had doesn't run without them."""


class Delegation:
    """``async with session.delegate("researcher") as child``."""

    def __init__(
        self,
        parent: Session,
        agent: str,
        on_event: Callable[[dict[str, Any]], Any] | None,
        surface: Literal["subagent", "workflow"],
    ) -> None:
        self._parent = parent
        self._agent = agent
        self._on_event = on_event
        self._surface = surface
        self._child: Session | None = None
        self._may_stop = False

    async def __aenter__(self) -> Session:
        from hookgate.call import Blocked

        parent = self._parent
        try:
            manifest, _ = await parent.take_registry()
        except Blocked as error:
            raise DelegationRefused(error.reason) from None
        if manifest.state.halted:
            raise DelegationRefused(manifest.state.reason or "the agent is halted")
        if self._agent not in manifest.may_delegate_to:
            raise DelegationRefused(f"{manifest.agent.slug} may not delegate to {self._agent}")
        if parent.depth >= MAX_DEPTH:
            raise DelegationRefused(f"delegation is at most {MAX_DEPTH} deep")
        started = await parent.emit(HookEvent.SUBAGENT_START, source=self._agent)
        if not started.allow:
            raise DelegationRefused(f"{started.blocked_by}: {started.error}")
        child = parent.runtime.open_child(
            parent,
            self._agent,
            self._on_event,
            surface=self._surface,
            parent_request=_acting_for.get() or parent.parent_request,
        )
        await child.__aenter__()
        try:
            await child.take_registry()
        except Blocked as error:
            child.leave()
            parent.runtime.sessions.discard(child)
            raise DelegationRefused(f"{self._agent} can't run: {error.reason}") from None
        if started.additional_context:
            child.context = "\n\n".join(filter(None, (child.context, started.additional_context)))
        self._child = child
        child.delegation = self
        return child

    async def may_stop(self, reason: str | None, metadata: dict[str, Any]) -> MergedResult:
        """Ask the caller's SubagentStop hooks whether the delegate may end."""
        merged = await self._parent.emit(
            HookEvent.SUBAGENT_STOP, source=self._agent, reason=reason, metadata=metadata
        )
        self._may_stop = merged.allow
        return merged

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._child is not None
        await self._child.__aexit__(kind, error, traceback)
        # Whoever asked before and was let go has told the hooks already.
        if not (self._may_stop or self._parent.leaving):
            await self._parent.emit(HookEvent.SUBAGENT_STOP, source=self._agent)
