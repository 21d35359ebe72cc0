"""An agent hands work to another agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

from hookgate import call_ids
from hookgate.events import HookEvent
from hookgate.result import MergedResult

if TYPE_CHECKING:
    from hookgate.session import Session

MAX_DEPTH: Final = 5


@dataclass(frozen=True, slots=True)
class Acting:
    """The call whose tool is running: of which session, by what the portal knows it, and for which approved request,
    on whose behalf the tool's delegates ask."""

    session_id: str
    key: str
    request_id: str | None


_acting: ContextVar[Acting | None] = ContextVar("hookgate_acting", default=None)


def current() -> Acting | None:
    """The innermost call whose tool is running here."""
    return _acting.get()


@contextmanager
def acting(call: Acting | None) -> Iterator[None]:
    """Run something as a part of a call's tool."""
    token = _acting.set(call)
    try:
        yield
    finally:
        _acting.reset(token)


class DelegationRefused(Exception):
    """The delegate may not, or can't, run. An agent whose hooks can't be had doesn't run without them."""


class Delegations:
    """What a session has delegated: by which path each delegate's calls are known, so that no two share their ids and
    a restarted process gives the same ones. ``path`` is the session's own."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._counts: Counter[tuple[str, str | None]] = Counter()
        # By agent and path; whether it is the one without a name and outside a call.
        self._open: dict[tuple[str, str], bool] = {}

    def take(self, agent: str, name: str | None, within: str | None) -> str:
        """The path of one more delegate, until `give_back`. ``within`` is the call whose tool delegates.
        Raises DelegationRefused where another one that is open would have it too."""
        unnamed = name is None and within is None
        if unnamed and any(self._open[key] for key in self._open if key[0] == agent):
            raise DelegationRefused(
                f"a delegation to {agent} is open already; several at a time need names, "
                f"such as session.delegate({agent!r}, name='first')"
            )
        path = self._choose(agent, name, within)
        if (agent, path) in self._open:
            raise DelegationRefused(
                f"a delegation to {agent} with this name is open already; name it otherwise"
            )
        self._open[agent, path] = unnamed
        self._counts[agent, None] += 1
        if within is not None:
            self._counts[agent, within] += 1
        return path

    def give_back(self, agent: str, path: str) -> None:
        """The delegate is gone."""
        self._open.pop((agent, path), None)

    def take_back(self, agent: str, path: str, within: str | None) -> None:
        """The delegate could not be opened, and doesn't count."""
        self.give_back(agent, path)
        self._counts[agent, None] -= 1
        if within is not None:
            self._counts[agent, within] -= 1

    def _choose(self, agent: str, name: str | None, within: str | None) -> str:
        if within is None:
            own = str(self._counts[agent, None]) if name is None else name
            return call_ids.as_path(*filter(None, (self._path, own)))
        if name is not None:
            return call_ids.as_path(within, name)
        # The first of a call has the call's id; those after it would share it.
        before = self._counts[agent, within]
        return call_ids.as_path(within, str(before)) if before else call_ids.as_path(within)


class Delegation:
    """``async with session.delegate("researcher") as child``."""

    def __init__(
        self,
        parent: Session,
        agent: str,
        on_event: Callable[[dict[str, Any]], Any] | None,
        surface: Literal["subagent", "workflow"],
        name: str | None = None,
    ) -> None:
        self._name = None if name is None else call_ids.check("name", name)
        self._path = ""
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
        call = current()
        within = call.key if call is not None and call.session_id == parent.id else None
        self._path = parent.delegations.take(self._agent, self._name, within)
        try:
            return await self._open(call)
        except BaseException:
            parent.delegations.take_back(self._agent, self._path, within)
            raise

    async def _open(self, call: Acting | None) -> Session:
        from hookgate.call import Blocked

        parent = self._parent
        started = await parent.emit(HookEvent.SUBAGENT_START, source=self._agent)
        if not started.allow:
            raise DelegationRefused(f"{started.blocked_by}: {started.error}")
        child = parent.runtime.open_child(
            parent,
            self._agent,
            self._on_event,
            surface=self._surface,
            path=self._path,
            parent_request=(call and call.request_id) or parent.parent_request,
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
        try:
            await self._child.__aexit__(kind, error, traceback)
        finally:
            self._parent.delegations.give_back(self._agent, self._path)
        # Whoever asked before and was let go has told the hooks already.
        if not (self._may_stop or self._parent.leaving):
            await self._parent.emit(HookEvent.SUBAGENT_STOP, source=self._agent)
