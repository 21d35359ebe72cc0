"""One agent at work for one user: the hooks around its loop."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Self

from hookgate import call_ids
from hookgate.engine import signatures
from hookgate.engine.composition import run_chain
from hookgate.engine.running import InCaller
from hookgate.events import TOOL_POINTS, HookEvent
from hookgate.journal.record import CalledBy
from hookgate.registry.manifest import SURFACES
from hookgate.result import Blocked, MergedResult, Outcome
from hookgate.session import acting, gate, users
from hookgate.session.approval import Approval
from hookgate.session.call import ToolCall
from hookgate.session.delegation import MAX_DEPTH, DelegationRefused, Delegations
from hookgate.session.environment import CallEnvironment, OnEvent
from hookgate.session.process import Process
from hookgate.session.services import SessionServices

log = logging.getLogger("hookgate")


class Session(CallEnvironment):
    """Made by `Runtime.session`; use it as ``async with``.

    ``context`` is the text that SessionStart hooks want in the first prompt. ``hooks`` holds the
    declared hooks and those that you register.
    """

    def __init__(
        self,
        process: Process,
        agent: str,
        *,
        surface: str,
        user: Mapping[str, Any] | None,
        conversation_id: str | None,
        on_event: OnEvent | None,
        stubs: Mapping[str, Callable[[dict[str, Any]], Any]] | None,
        depth: int = 0,
        path: str = "",
        parent_request: str | None = None,
    ) -> None:
        if surface not in SURFACES:
            raise ValueError(f"surface must be one of {', '.join(SURFACES)}, not {surface!r}")
        own_id = str(uuid.uuid4())
        by = CalledBy(
            session_id=own_id,
            agent=agent,
            surface=surface,
            conversation_id=call_ids.take_conversation(conversation_id, own_id),
            initiator=None if user is None else users.read(user),
            path=path,
            parent_request=parent_request,
        )
        super().__init__(process, by, stubs=signatures.check_all(stubs or {}), on_event=on_event)
        self.services = SessionServices(self)
        self.depth, self.delegations = depth, Delegations(path)
        self.delegation: Delegation | None = None
        self._owner: asyncio.Task[Any] | None = None

    @property
    def stopped(self) -> str | None:
        """Why this session runs nothing any more; None while it may."""
        return self.stop_reason

    async def __aenter__(self) -> Self:
        self._owner = asyncio.current_task()
        self.process.sessions.add(self)
        self.feed.open(self.source)
        try:
            # A new session asks anew, also where an earlier one was refused.
            await self.source.refresh(force=self.source.stopped is not None)
            self.stops = self.source.stops
            await self.take_registry()
        except Blocked as error:
            log.warning("session of %s begins without a registry: %s", self.agent, error.reason)
        except BaseException:
            self.leave()
            self.process.sessions.discard(self)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        already_left = self.leaving
        # First of all: what is cancelled from here on leaves its request pending.
        self.leave()
        self.process.sessions.discard(self)
        if self.manifest is not None and not already_left and not self.manifest.bypass:
            await self.run_point(HookEvent.SESSION_END, reason="error" if error else "exit")

    def leave(self) -> None:
        """Detach: calls that wait for people end as blocked, their requests stay pending."""
        if not self.leaving:
            self.feed.close(self.source)
        self.leaving = True
        for call in list(self.calls.values()):
            if call.approval is not None:
                call.approval.detach()

    async def call_tool(
        self,
        name: str,
        args: dict[str, Any],
        *,
        execute: Callable[[dict[str, Any]], Any],
        tool_call_id: str | None = None,
        action: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        summary: str | None = None,
    ) -> Outcome:
        """Run a tool through the hooks.

        ``execute`` is sync (it then runs in a thread) or async and gets the arguments that passed the
        chain. ``action`` names the action where one tool fronts many; hooks and policies go by it.
        ``tool_call_id`` makes a restarted process re-attach to the same request. ``summary`` is shown to
        approvers. Never raises for what a hook or the tool did; TypeError, before anybody is asked, for a function
        that can't take its arguments as one dict, or not these (`hookgate.by_name`).
        """
        tool, plain = (execute.tool, execute.plain) if isinstance(execute, InCaller) else (execute, None)
        signatures.check(tool, args)
        call = ToolCall(
            self,
            action or name,
            args,
            tool,
            tool_call_id=tool_call_id,
            called_as=name,
            metadata=dict(metadata or {}),
            summary=summary,
            plain=plain,
        )
        self.calls[call.id] = call
        try:
            return await call.run()
        except BaseException as error:
            call.abandon()
            if isinstance(error, asyncio.CancelledError):
                await self._abandon(call)
            raise
        finally:
            self.calls.pop(call.id, None)

    async def cancel(self, tool_call_id: str) -> bool:
        """Take back the request of a call that waits for people. True only if its tool will not run; False when
        there is no request, when it was decided already, or when the portal can't be reached."""
        # Calls may share an id, and then a request: none of them may run.
        named = [call for call in self.calls.values() if tool_call_id in (call.tool_call_id, call.key)]
        asked = [call.approval for call in named if call.approval is not None]
        if not asked or any(call.executing for call in named):
            return False
        answers = await asyncio.gather(*(approval.cancel() for approval in asked))
        return all(answers) and not any(call.executing for call in named)

    async def emit(self, event: HookEvent | str, **fields: Any) -> MergedResult:
        """Fire a hook point; one merged result.

        ``fields``: prompt, source, reason, error, metadata; tool_name, tool_args and tool_result at the
        tool points. At PreToolUse it only asks: a call that would need people's approval is denied, since
        only `call_tool` can wait for it. Where no registry can be used, the result denies.
        """
        event = HookEvent(event)
        try:
            manifest, chains = await self.take_registry()
        except Blocked as error:
            return MergedResult(allow=False, error=error.reason, blocked_by=error.by)
        if manifest.bypass:
            return MergedResult()
        tool = None
        if event in TOOL_POINTS:
            tool = manifest.tool_facts(fields.get("tool_name") or "")
        context = self.make_context(event, tool=tool, **fields)
        merged = await run_chain(
            chains.select(event, context.tool_name), context, failures=self.hooks.failures
        )
        if event is HookEvent.PRE_TOOL_USE and merged.allow:
            gate.judge_emitted(manifest, context, merged)
        return merged

    async def may_stop(self, *, reason: str | None = None, answer: str | None = None) -> MergedResult:
        """Ask the Stop hooks whether the loop may end; for a delegate its caller's SubagentStop hooks too.

        A denial's ``error`` says what is left to do. ``answer`` is in the hooks' ``metadata``.
        """
        metadata = {"answer": answer}
        merged = await self.emit(HookEvent.STOP, reason=reason, metadata=metadata)
        if merged.allow and self.delegation is not None:
            return await self.delegation.may_stop(reason, metadata)
        return merged

    def delegate(
        self,
        agent: str,
        *,
        name: str | None = None,
        surface: Literal["subagent", "workflow"] = "subagent",
        on_event: OnEvent | None = None,
    ) -> Delegation:
        """A session of another agent, for the same user and conversation; ``workflow`` for a plan's node.

        Its registry is its own; nothing of this one's hooks is inherited. ``name`` tells several of one agent apart.
        Entering raises DelegationRefused for an agent that this one may not delegate to, beyond depth 5, where its
        calls would share their ids with those of another that is open, and when it has no usable registry.
        """
        return Delegation(self, agent, on_event or self._on_event, surface, name)

    async def _abandon(self, call: ToolCall) -> None:
        """A call's task was cancelled. Its request is taken back, unless the whole session is being left."""
        approval, owner = call.approval, self._owner
        if approval is None or call.executing or self.leaving or self.process.detaching:
            return
        unwinding = owner is None or owner.done() or owner.cancelling() or owner is asyncio.current_task()
        if unwinding:
            # A cancelled owner is about to leave, or goes on after a time-out: a moment will show.
            self.process.background(self._cancel_unless_leaving(approval))
            return
        giving_up = {self.process.background(approval.abandon())}
        await asyncio.wait(giving_up, timeout=self.process.pacing.cancel_bound)

    async def _cancel_unless_leaving(self, approval: Approval) -> None:
        await asyncio.sleep(self.process.pacing.detach_grace)
        if not self.leaving and not self.process.detaching:
            await approval.abandon()


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
        call = acting.current()
        within = call.key if call is not None and call.session_id == parent.id else None
        self._path = parent.delegations.take(self._agent, self._name, within)
        try:
            return await self._open(call)
        except BaseException:
            parent.delegations.take_back(self._agent, self._path, within)
            raise

    async def _open(self, call: acting.Acting | None) -> Session:
        parent = self._parent
        started = await parent.emit(HookEvent.SUBAGENT_START, source=self._agent)
        if not started.allow:
            raise DelegationRefused(f"{started.blocked_by}: {started.error}")
        child = Session(
            parent.process,
            self._agent,
            # Within an evaluation it is one too: nobody may be asked there.
            surface="eval" if parent.surface == "eval" else self._surface,
            user=parent.initiator,
            conversation_id=parent.conversation_id,
            on_event=self._on_event,
            stubs=parent.stubs,
            depth=parent.depth + 1,
            path=self._path,
            parent_request=(call and call.request_id) or parent.by.parent_request,
        )
        await child.__aenter__()
        try:
            await child.take_registry()
        except Blocked as error:
            child.leave()
            parent.process.sessions.discard(child)
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
        # `may_stop` has told these hooks already, if it let the delegate go.
        if not (self._may_stop or self._parent.leaving):
            await self._parent.emit(HookEvent.SUBAGENT_STOP, source=self._agent)
