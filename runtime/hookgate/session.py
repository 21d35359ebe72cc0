"""One agent at work for one user: the hooks around its loop."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from hookgate import call_ids, callbacks, entries, explanations, gate, handlers, signatures, users
from hookgate.approval import Approval
from hookgate.call import Blocked, ToolCall
from hookgate.catalogue import AUDIT_LOG
from hookgate.chains import Bound, Chains
from hookgate.composition import run_chain
from hookgate.context import HookContext, Subject, ToolFacts
from hookgate.delegation import Delegation, Delegations
from hookgate.events import TOOL_POINTS, HookEvent
from hookgate.manifest import SURFACES, HookSpec, Manifest, State
from hookgate.portal import Refused
from hookgate.registry import HookRegistry
from hookgate.result import MergedResult, Outcome
from hookgate.running import InCaller
from hookgate.services import SessionServices
from hookgate.spool import SpoolFailed

if TYPE_CHECKING:
    from hookgate.runtime import Runtime

log = logging.getLogger("hookgate")

OnEvent = Callable[[dict[str, Any]], Any]


class Session:
    """Made by `Runtime.session`; use it as ``async with``.

    ``context`` is the text that SessionStart hooks want in the first prompt. ``hooks`` holds the
    declared hooks and those that you register.
    """

    def __init__(
        self,
        runtime: Runtime,
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
        self.id = str(uuid.uuid4())
        self.agent, self.surface = agent, surface
        self.conversation_id = call_ids.take_conversation(conversation_id, self.id)
        self.initiator = None if user is None else users.read(user)
        self.user_id = self.initiator["id"] if self.initiator else None
        self.parent_request = parent_request
        self.stubs = signatures.check_all(stubs or {})
        self.hooks, self.context = HookRegistry(), ""
        self.depth, self.path = depth, path
        self.delegations = Delegations(path)
        self.runtime = runtime
        self.services = SessionServices(self)
        self.delegation: Delegation | None = None
        self.leaving, self._on_event = False, on_event
        self.manifest: Manifest | None = None
        self._source, self._feed = runtime.source(agent, surface), runtime.feed(agent)
        self._stops = 0
        self._stopped: str | None = None
        self._subject: Subject | None = None
        self._started, self._starting = False, asyncio.Lock()
        self._owner: asyncio.Task[Any] | None = None
        self._calls: dict[str, ToolCall] = {}

    @property
    def stopped(self) -> str | None:
        """Why this session runs nothing any more; None while it may."""
        return self._stopped

    async def __aenter__(self) -> Self:
        self._owner = asyncio.current_task()
        self.runtime.sessions.add(self)
        self._feed.open(self._source)
        try:
            # A new session asks anew, also where an earlier one was refused.
            await self._source.refresh(force=self._source.stopped is not None)
            self._stops = self._source.stops
            await self.take_registry()
        except Blocked as error:
            log.warning("session of %s begins without a registry: %s", self.agent, error.reason)
        except BaseException:
            self.leave()
            self.runtime.sessions.discard(self)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        already_left = self.leaving
        # First of all: what is cancelled from here on leaves its request pending.
        self.leave()
        self.runtime.sessions.discard(self)
        if self.manifest is not None and not already_left and not self.manifest.bypass:
            await self._run_point(HookEvent.SESSION_END, reason="error" if error else "exit")

    def leave(self) -> None:
        """Detach: calls that wait for people end as blocked, their requests stay pending."""
        if not self.leaving:
            self._feed.close(self._source)
        self.leaving = True
        for call in list(self._calls.values()):
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
        self._calls[call.id] = call
        try:
            return await call.run()
        except BaseException as error:
            call.abandon()
            if isinstance(error, asyncio.CancelledError):
                await self._abandon(call)
            raise
        finally:
            self._calls.pop(call.id, None)

    async def cancel(self, tool_call_id: str) -> bool:
        """Take back the request of a call that waits for people. True only if its tool will not run; False when
        there is no request, when it was decided already, or when the portal can't be reached."""
        # Calls may share an id, and then a request: none of them may run.
        named = [call for call in self._calls.values() if tool_call_id in (call.tool_call_id, call.key)]
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
            tool = gate.describe_tool(manifest, fields.get("tool_name") or "")
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

    async def take_registry(self) -> tuple[Manifest, Chains]:
        """The registry that holds now. Raises Blocked when no tool may run."""
        if self._stopped is None and not self.leaving:
            await self._source.refresh()
        if self.leaving or self.runtime.closed:
            raise Blocked("session", "the session was left")
        manifest = self._usable_registry()
        if manifest is not self.manifest:
            self._adopt(manifest)
        await self._start()
        return manifest, self.hooks.chains()

    def _usable_registry(self) -> Manifest:
        if self._stops != self._source.stops:
            # Also where another session has been let in since.
            self._stopped = self._stopped or self._source.last_stop
        obstacle = self._stopped or self._source.obstacle()
        manifest = self._source.manifest
        if obstacle is not None or manifest is None:
            raise Blocked("registry", obstacle or "no registry")
        return manifest

    async def judge_now(self) -> State:
        """The switches of this moment, for a call that began earlier. Raises Blocked when it may not go on."""
        if self._source.obstacle() is not None:
            await self._source.refresh()
        return self._usable_registry().state

    def _adopt(self, manifest: Manifest) -> None:
        """Make the hooks of a new registry. All or nothing: one that can't run leaves none."""
        self.manifest = None
        self.services.prepare(manifest)
        try:
            bound = [self._bind(spec) for spec in manifest.hooks]
        except handlers.HandlerUnusable as error:
            raise Blocked("registry", f"handler_unsupported: {error}") from error
        agent = manifest.agent
        self._subject = Subject(
            {"id": agent.id, "slug": agent.slug, "organization": agent.organization},
            users.in_conditions(self.initiator) if self.initiator else None,
        )
        self.hooks.declare(bound)
        self.manifest = manifest
        if not manifest.bypass:
            self.runtime.call_log.admit(self.agent, agent.organization, agent.slug)

    def _bind(self, spec: HookSpec) -> Bound:
        if spec.handler is not None:
            return Bound.of_spec(spec, handlers.load(spec, spec.handler, self.runtime.python_handlers))
        assert spec.entry is not None
        return Bound.of_spec(spec, spec.entry.create(spec, self.services))

    async def _start(self) -> None:
        """Run the SessionStart hooks once; calls that come meanwhile wait for them."""
        if self._started:
            return
        async with self._starting:
            if self._started:
                return
            assert self.manifest is not None
            if not self.manifest.bypass:
                merged = await self._run_point(HookEvent.SESSION_START, source="startup")
                if not merged.allow:
                    self._stopped = f"{merged.blocked_by} failed at SessionStart: {merged.error}"
                    raise Blocked("registry", self._stopped)
                self.context = merged.additional_context or ""
            self._started = True

    async def _run_point(self, event: HookEvent, **fields: Any) -> MergedResult:
        context = self.make_context(event, **fields)
        return await run_chain(self.hooks.chains().select(event, ""), context, failures=self.hooks.failures)

    def make_context(
        self,
        event: HookEvent,
        *,
        tool: ToolFacts | None = None,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> HookContext:
        """A context with everything that the session knows."""
        manifest = self.manifest
        known = {
            "tool_call_id": None,
            **(metadata or {}),
            "org_id": manifest.agent.organization if manifest else None,
            "conversation_id": self.conversation_id,
            "connector": tool.connector if tool else None,
            "action": tool.action if tool else None,
            "writes": tool.writes if tool else None,
            "requires_confirmation": tool.requires_confirmation if tool else None,
        }
        return HookContext(
            event,
            agent_id=manifest.agent.id if manifest else None,
            user_id=self.user_id,
            conversation_id=self.conversation_id,
            session_id=self.id,
            surface=self.surface,
            metadata=known,
            tool=tool,
            subject=self._subject,
            **fields,
        )

    def find_call(self, call_id: str) -> ToolCall:
        """A call that is under way. Raises KeyError."""
        return self._calls[call_id]

    def open_approval(self) -> Approval:
        """A confirmation request that is not posted yet."""
        of = self.runtime
        return Approval(of.portal, of.pacing, of.clock, self.announce, of.waits, self._feed)

    def report_outcome(self, approval: Approval, status: str, detail: str | None) -> None:
        """Report in the background; the call doesn't wait for it, and its loss changes nothing here."""
        self.runtime.background(approval.report(status, detail))

    def record(self, call: ToolCall) -> None:
        """Queue the call's log entry, once."""
        if call.recorded or self.surface == "eval":
            return
        call.recorded = True
        services = self.services
        entry = entries.write(call, redact=services.log_redact, results=services.log_results)
        self.runtime.call_log.add(self.agent, entry, max_queued=services.max_queued)

    def mark(self, call: ToolCall, status: Literal["cancelled", "unknown"]) -> None:
        """Keep on disk what is to be said of the call should this process die. Raises Blocked."""
        if self.surface == "eval":
            return
        entry = entries.write_mark(call, status, redact=self.services.log_redact)
        try:
            self.runtime.call_log.mark(self.agent, entry)
        except SpoolFailed as error:
            call.merged.trace.append(
                {"hook": AUDIT_LOG, "outcome": "failed_denied", "ms": 0.0, "changed": []}
            )
            raise Blocked(AUDIT_LOG, str(error)) from None

    def note_refusal(self, error: Exception) -> None:
        """The portal knows this key no more, which ends the session, or these rules, which are asked for again."""
        if isinstance(error, Refused) and error.status == 401:
            self._stopped = explanations.refused_registry(self.agent, error)
        elif isinstance(error, Refused) and error.code == "unknown_registry":
            self._source.invalidate()

    async def announce(self, kind: str, fields: dict[str, Any]) -> None:
        """Tell `on_event`; what it raises is logged and changes nothing."""
        if self._on_event is None:
            return
        await callbacks.tell(self._on_event, {"type": kind, **fields})

    async def _abandon(self, call: ToolCall) -> None:
        """A call's task was cancelled. Its request is taken back, unless the whole session is being left."""
        approval, owner = call.approval, self._owner
        if approval is None or call.executing or self.leaving or self.runtime.detaching:
            return
        unwinding = owner is None or owner.done() or owner.cancelling() or owner is asyncio.current_task()
        if unwinding:
            # A cancelled owner is about to leave, or goes on after a time-out: a moment will show.
            self.runtime.background(self._cancel_unless_leaving(approval))
            return
        giving_up = {self.runtime.background(approval.abandon())}
        await asyncio.wait(giving_up, timeout=self.runtime.pacing.cancel_bound)

    async def _cancel_unless_leaving(self, approval: Approval) -> None:
        await asyncio.sleep(self.runtime.pacing.detach_grace)
        if not self.leaving and not self.runtime.detaching:
            await approval.abandon()
