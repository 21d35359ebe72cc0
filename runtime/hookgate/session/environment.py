"""What a call finds when it begins: the registry in hand, its hooks, the switches, the call log, the people.

`Session` is one, for the program; a `ToolCall` and the built-in hooks see no more of a session than this.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hookgate.catalogue import AUDIT_LOG, CATALOGUE, HookServices
from hookgate.context import HookContext, Subject, ToolFacts
from hookgate.engine import callbacks, handlers
from hookgate.engine.chains import Bound, Chains
from hookgate.engine.composition import run_chain
from hookgate.engine.hook_registry import HookRegistry
from hookgate.events import HookEvent
from hookgate.journal import entries
from hookgate.journal.record import CalledBy, CallRecord
from hookgate.journal.spool import SpoolFailed
from hookgate.registry.manifest import Manifest, State
from hookgate.result import Blocked, HookResult, MergedResult
from hookgate.session import users
from hookgate.session.approval import Approval
from hookgate.session.process import Process
from hookgate.spec import HookSpec
from hookgate.wire import explanations
from hookgate.wire.portal import Refused

OnEvent = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How this agent's calls are logged: parameters of `audit_log`. ``redact``: paths beside the tool's own."""

    max_queued: int = 10_000
    redact: tuple[str, ...] = ()
    results: bool = False


class OpenCall(CallRecord):
    """A call that is under way."""

    approval: Approval | None = None

    @property
    def confirmation_id(self) -> str | None:
        return self.approval.id if self.approval else None

    @abstractmethod
    async def request_approval(self) -> HookResult:
        """Ask people about this call, wait, and say what they said."""


class CallEnvironment:
    """One agent's registry and everything that its calls need of the session. ``services`` is what its built-in hooks
    get; whoever makes an environment sets it, before the first registry is taken."""

    services: HookServices

    def __init__(
        self,
        process: Process,
        by: CalledBy,
        *,
        stubs: Mapping[str, Callable[[dict[str, Any]], Any]],
        on_event: OnEvent | None,
    ) -> None:
        self.process, self.by = process, by
        self.id, self.agent, self.surface = by.session_id, by.agent, by.surface
        self.conversation_id, self.initiator = by.conversation_id, by.initiator
        self.user_id = by.initiator["id"] if by.initiator else None
        self.stubs = stubs
        self.hooks, self.context = HookRegistry(), ""
        self.log_settings = LogSettings()
        self.manifest: Manifest | None = None
        self.leaving = False
        self.calls: dict[str, OpenCall] = {}
        self.source, self.feed = process.source(by.agent, by.surface), process.feed(by.agent)
        # How often the source had refused when this session began, and why it runs nothing any more.
        self.stops = 0
        self.stop_reason: str | None = None
        self._on_event = on_event
        self._subject: Subject | None = None
        self._started, self._starting = False, asyncio.Lock()

    async def take_registry(self) -> tuple[Manifest, Chains]:
        """The registry that holds now. Raises Blocked when no tool may run."""
        if self.stop_reason is None and not self.leaving:
            await self.source.refresh()
        if self.leaving or self.process.closed:
            raise Blocked("session", "the session was left")
        manifest = self._usable_registry()
        if manifest is not self.manifest:
            self._adopt(manifest)
        await self._start()
        return manifest, self.hooks.chains()

    def _usable_registry(self) -> Manifest:
        if self.stops != self.source.stops:
            # Also where another session has been let in since.
            self.stop_reason = self.stop_reason or self.source.last_stop
        obstacle = self.stop_reason or self.source.obstacle()
        manifest = self.source.manifest
        if obstacle is not None or manifest is None:
            raise Blocked("registry", obstacle or "no registry")
        return manifest

    async def judge_now(self) -> State:
        """The switches of this moment, for a call that began earlier. Raises Blocked when it may not go on."""
        if self.source.obstacle() is not None:
            await self.source.refresh()
        return self._usable_registry().state

    def _adopt(self, manifest: Manifest) -> None:
        """Make the hooks of a new registry. All or nothing: one that can't run leaves none."""
        self.manifest = None
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
            self.process.call_log.admit(self.agent, agent.organization, agent.slug)

    def _bind(self, spec: HookSpec) -> Bound:
        if spec.handler is not None:
            return Bound.of_spec(spec, handlers.load(spec, spec.handler, self.process.python_handlers))
        return Bound.of_spec(spec, CATALOGUE[spec.name].create(spec, self.services))

    async def _start(self) -> None:
        """Run the SessionStart hooks once; calls that come meanwhile wait for them."""
        if self._started:
            return
        async with self._starting:
            if self._started:
                return
            assert self.manifest is not None
            if not self.manifest.bypass:
                merged = await self.run_point(HookEvent.SESSION_START, source="startup")
                if not merged.allow:
                    self.stop_reason = f"{merged.blocked_by} failed at SessionStart: {merged.error}"
                    raise Blocked("registry", self.stop_reason)
                self.context = merged.additional_context or ""
            self._started = True

    async def run_point(self, event: HookEvent, **fields: Any) -> MergedResult:
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

    def find_call(self, call_id: str) -> OpenCall:
        """A call that is under way. Raises KeyError."""
        return self.calls[call_id]

    def open_approval(self) -> Approval:
        """A confirmation request that is not posted yet."""
        of = self.process
        return Approval(of.portal, of.pacing, of.clock, self.announce, of.waits, self.feed)

    def report_outcome(self, approval: Approval, status: str, detail: str | None) -> None:
        """Report in the background; the call doesn't wait for it, and its loss changes nothing here."""
        self.process.background(approval.report(status, detail))

    def record(self, call: CallRecord) -> None:
        """Queue the call's log entry, once."""
        if call.recorded or self.surface == "eval":
            return
        call.recorded = True
        wanted = self.log_settings
        entry = entries.write(call, redact=wanted.redact, results=wanted.results)
        self.process.call_log.add(self.agent, entry, max_queued=wanted.max_queued)

    def mark(self, call: CallRecord, status: Literal["cancelled", "unknown"]) -> None:
        """Keep on disk what is to be said of the call should this process die. Raises Blocked."""
        if self.surface == "eval":
            return
        entry = entries.write_mark(call, status, redact=self.log_settings.redact)
        try:
            self.process.call_log.mark(self.agent, entry)
        except SpoolFailed as error:
            call.merged.trace.append(
                {"hook": AUDIT_LOG, "outcome": "failed_denied", "ms": 0.0, "changed": []}
            )
            raise Blocked(AUDIT_LOG, str(error)) from None

    def note_refusal(self, error: Exception) -> None:
        """The portal knows this key no more, which ends the session, or these rules, which are asked for again."""
        if isinstance(error, Refused) and error.status == 401:
            self.stop_reason = explanations.refused_registry(self.agent, error)
        elif isinstance(error, Refused) and error.code == "unknown_registry":
            self.source.invalidate()

    async def announce(self, kind: str, fields: dict[str, Any]) -> None:
        """Tell `on_event`; what it raises is logged and changes nothing."""
        if self._on_event is None:
            return
        await callbacks.tell(self._on_event, {"type": kind, **fields})
