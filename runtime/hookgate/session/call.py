"""One tool call, from the model's wish to the observation.

The order is the contract's: registry, arguments, halt, PreToolUse hooks, gate, consume, the tool,
PostToolUse hooks, call log. Everything that stops a call raises `Blocked` inside and becomes an
observation outside.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from hookgate import call_ids, canonical, texts
from hookgate.catalogue import GATE
from hookgate.context import HookContext, read_args
from hookgate.engine import running, signatures
from hookgate.engine.chains import Chains
from hookgate.engine.composition import run_chain
from hookgate.engine.running import Plain
from hookgate.events import HookEvent
from hookgate.registry.manifest import State
from hookgate.result import (
    Blocked,
    CallStatus,
    HookResult,
    MergedResult,
    Outcome,
    describe_error,
    judge_end,
)
from hookgate.session import acting, gate, outcomes
from hookgate.session.approval import TAKEN_BACK, Detached, Verdict, explain_consume
from hookgate.session.environment import CallEnvironment, OpenCall
from hookgate.wire import explanations
from hookgate.wire.portal import Refused, Unreachable

log = logging.getLogger("hookgate")

_READONLY_GUARD: Final = "readonly_guard"
_BEFORE_HOOKS: Final = frozenset({"halted", "arguments"})
_LEFT: Final = "the session was left; the request stays for the next process"
NEVER_STARTED: Final = "this runtime never started the tool"


class ToolCall(OpenCall):
    """One call under way in ``session``."""

    def __init__(
        self,
        session: CallEnvironment,
        name: str,
        args: Any,
        execute: Callable[[dict[str, Any]], Any],
        *,
        tool_call_id: str | None,
        called_as: str,
        metadata: dict[str, Any],
        summary: str | None,
        plain: Plain | None = None,
    ) -> None:
        known_as, self._id_fault = call_ids.read(tool_call_id)
        key = call_ids.join(session.by.path, known_as)
        super().__init__(session.by, name, called_as=called_as, tool_call_id=known_as, key=key)
        self.session = session
        self.summary = summary
        self.chains: Chains | None = None
        self._raw_args = args
        self._execute, self._plain = execute, plain
        self._metadata = metadata
        self._firing: gate.Firing | None = None
        self._detached = self._consuming = False

    async def run(self) -> Outcome:
        """The whole call. Raises nothing but CancelledError."""
        try:
            await self._admit()
            await self._run_tool()
        except Blocked as stop:
            await self._block(stop)
        await self._close()
        return outcomes.write(self)

    async def _admit(self) -> None:
        """Everything that must hold before the tool may run."""
        self.manifest, self.chains = await self.session.take_registry()
        self.tool = self.manifest.tool_facts(self.name)
        try:
            call_ids.check("tool_name", self.name, longest=200)
            if self._id_fault is not None:
                raise self._id_fault
            canonical.check(self._raw_args, path="tool_args")
            if not isinstance(self._raw_args, dict):
                raise canonical.NotCanonical("tool_args", "must be an object")
        except canonical.NotCanonical as error:
            raise Blocked("arguments", f"args_not_canonical: {error}") from None
        self.args = canonical.copy(self._raw_args)
        _refuse_halted(self.manifest.state)
        if self.manifest.bypass:
            self._replace_by_stub()
            return
        if not self.tool.listed and self.manifest.unlisted_tools == "deny":
            raise Blocked("unlisted_tools", f"no connector and no tools entry names {self.name}")
        await self._run_pre_tool()
        await self._pass_gate()

    def _replace_by_stub(self) -> None:
        assert self.manifest is not None
        assert self.tool is not None
        stub = self.session.stubs.get(self.name) or self.session.stubs.get(self.called_as)
        if stub is not None:
            self._execute = stub
        elif (
            self.tool.writes or self.tool.requires_confirmation or self.manifest.require_confirmation_for_all
        ):
            raise Blocked("eval", "on surface eval this tool runs only as a stub, and the session has none")

    async def _run_pre_tool(self) -> None:
        context = self.context(HookEvent.PRE_TOOL_USE)
        await self._run_chain(context)
        self.args = read_args(context)
        if not self.merged.allow:
            raise Blocked(self.merged.blocked_by or "", self.merged.error or "")
        if isinstance(self._execute, signatures.ByName):
            self._check_names(self._execute)

    def _check_names(self, execute: signatures.ByName) -> None:
        """Nobody is asked about a call that can't be made: hooks may have rewritten its arguments."""
        try:
            execute.check(self.args)
        except TypeError as error:
            raise Blocked("arguments", str(error)) from None
        if missing := execute.missing(self.args):
            raise Blocked("arguments", f"{', '.join(missing)}: missing, and {self.name} needs it")

    async def _run_chain(self, context: HookContext) -> None:
        assert self.chains is not None
        hooks = self.chains.select(context.event, self.name)
        await run_chain(hooks, context, self.merged, self.session.hooks.failures)

    async def _pass_gate(self) -> None:
        """Ask people where the gate fires, and use their approval for exactly what is about to run."""
        assert self.manifest is not None
        assert self.chains is not None
        context = self.context(HookEvent.PRE_TOOL_USE)
        self._firing = gate.judge(self.manifest, context, self.merged.trace)
        if self._firing is None:
            return
        if self.chains.gate is None:
            raise Blocked(GATE, "the registry has no gate")
        await self._run_chain(context.at(HookEvent.PERMISSION_REQUEST))
        if not self.merged.allow:
            raise Blocked(self.merged.blocked_by or "", self.merged.error or "")
        asked = self.args
        # People may take long: if the process dies meanwhile, the log says that the tool did not run.
        self.session.mark(self, "cancelled")
        await run_chain((self.chains.gate,), context, self.merged)
        if not self.merged.allow:
            status: CallStatus = "cancelled" if self._detached else "blocked"
            raise Blocked(self.merged.blocked_by or GATE, self.merged.error or "", status)
        edited = read_args(context)
        if edited is not asked:
            await self._recheck(edited)
        await self._consume()

    async def _recheck(self, edited: dict[str, Any]) -> None:
        """Run the other hooks on what an approver made of the arguments."""
        self.args = edited
        await self._run_pre_tool()
        if canonical.canonicalize(self.args) != canonical.canonicalize(edited):
            raise Blocked(GATE, "a hook rewrites the arguments that people approved")

    async def _consume(self) -> None:
        assert self.approval is not None
        if self.session.leaving:
            # The approval stays unused for the process that takes the request up.
            raise Blocked(GATE, _LEFT, "cancelled")
        # The switches are judged by the portal, with the use itself.
        await self.session.judge_now()
        # Before the approval is used up: a disk that is full must not cost it.
        self.session.mark(self, "unknown")
        self._consuming = True
        try:
            await self.approval.consume(canonical.digest(self.args))
        except Unreachable as error:
            log.warning("the approval of %s (%s) was not used: %s", self.name, self.key, error)
            # It may have been used all the same, with the answer lost on the way; or by another runtime,
            # whose own report must still be able to replace this one.
            self.session.report_outcome(self.approval, "unknown", NEVER_STARTED)
            raise Blocked(GATE, explain_consume(error)) from None
        except Refused as error:
            log.warning("the approval of %s (%s) was not used: %s", self.name, self.key, error)
            self.session.note_refusal(error)
            if error.code == TAKEN_BACK:
                self.session.report_outcome(self.approval, "failed", NEVER_STARTED)
            raise Blocked(GATE, explain_consume(error)) from None
        self._consuming = False

    async def request_approval(self) -> HookResult:
        """What the gate's hook does: post the request, wait, translate the verdict."""
        self.approval = self.session.open_approval()
        try:
            if self.session.leaving:
                raise Detached
            verdict = await self.approval.request(self._request_body())
        except Detached:
            self._detached = True
            verdict = Verdict(False, _LEFT)
        except (Unreachable, Refused) as error:
            log.warning("no approval was asked for %s (%s): %s", self.name, self.key, error)
            self.session.note_refusal(error)
            verdict = Verdict(False, explanations.not_asked(error))
        if not verdict.approved:
            return HookResult(allow=False, error=verdict.reason)
        edited = verdict.args is not None and canonical.canonicalize(verdict.args) != canonical.canonicalize(
            self.args
        )
        return HookResult(modified_args=verdict.args if edited else None)

    def _request_body(self) -> dict[str, Any]:
        assert self.manifest is not None
        assert self._firing is not None
        return {
            "agent": self.manifest.agent.slug,
            "conversation_id": self.session.conversation_id,
            "tool_call_id": self.key,
            "tool_name": self.name,
            "tool_args": self.args,
            "hook": GATE,
            "registry_digest": self.manifest.digest,
            "initiator": self.session.initiator,
            "summary": self.summary,
            "channel": self._firing.channel,
            "policy": self._firing.policy,
            "parent": self.by.parent_request,
        }

    async def _run_tool(self) -> None:
        if self._firing is None:
            await self._judge_switches()
            self.session.mark(self, "unknown")
        self.executing = True
        self.status = "unknown"
        process = self.session.process
        # The tool gets its own copy: what hooks and call log see is what was approved.
        request_id = self.confirmation_id if self.approval else self.by.parent_request
        with acting.acting(acting.Acting(self.session.id, self.key, request_id)):
            end = await running.run(
                self._execute,
                canonical.copy(self.args),
                plain=self._plain or process.run_plain,
                grace=process.pacing.cancel_bound,
            )
        self.executing = False
        self.result, self.status = end.value, judge_end(end.error)
        self.error = None if end.error is None else describe_error(end.error)
        if self.approval is not None:
            outcome = self.status if self.status in ("succeeded", "failed") else "unknown"
            self.session.report_outcome(self.approval, outcome, self.error)
        await self._run_post_tool()

    async def _judge_switches(self) -> None:
        """Hooks may have taken long: a switch that was thrown meanwhile holds for this call too."""
        state = await self.session.judge_now()
        _refuse_halted(state)
        assert self.manifest is not None
        writes = self.tool is None or self.tool.writes
        if state.read_only and writes and not self.manifest.bypass:
            raise Blocked(_READONLY_GUARD, "the organization is in read-only mode and this tool writes")

    async def _run_post_tool(self) -> None:
        if self.manifest is None or self.manifest.bypass:
            return
        event = HookEvent.POST_TOOL_USE if self.status == "succeeded" else HookEvent.POST_TOOL_USE_FAILURE
        await self._run_chain(self.context(event))
        if self.merged.modified_result is not None:
            self.result = self.merged.modified_result
        self._note_withheld()

    def _note_withheld(self) -> None:
        if not self.merged.allow:
            self.withheld = True
            self.blocked_by, self.reason = self.merged.blocked_by, self.merged.error

    async def _block(self, stop: Blocked) -> None:
        self.status, self.blocked_by, self.reason = stop.status, stop.by, stop.reason
        untouched = self.manifest is None or self.manifest.bypass or stop.by in _BEFORE_HOOKS
        if not untouched and stop.status == "blocked":
            # The denial stands, whatever these hooks say.
            await self._run_chain(self.context(HookEvent.PERMISSION_DENIED))
        await self.session.announce(
            "blocked",
            {
                "tool_call_id": texts.readable(str(self.tool_call_id)),
                "tool_name": texts.readable(str(self.name)),
                "hook": stop.by,
                "reason": stop.reason,
            },
        )

    async def _close(self) -> None:
        """Let the call log have its entry, last of all."""
        self.measure()
        if self.manifest is None or self.chains is None:
            self.session.record(self)
            return
        event = {
            "succeeded": HookEvent.POST_TOOL_USE,
            "failed": HookEvent.POST_TOOL_USE_FAILURE,
            "timed_out": HookEvent.POST_TOOL_USE_FAILURE,
            "unknown": HookEvent.POST_TOOL_USE_FAILURE,
        }.get(self.status, HookEvent.PERMISSION_DENIED)
        closing = MergedResult()
        await run_chain(self.chains.closers(event), self.context(event), closing)
        if not closing.allow and self.status not in ("blocked", "cancelled"):
            self.withheld = True
            self.blocked_by, self.reason = closing.blocked_by, closing.error

    def abandon(self) -> None:
        """The call's task was cancelled: say what is known, without waiting for anything."""
        self.measure()
        if self.executing and self.approval is not None:
            self.session.report_outcome(self.approval, "unknown", "the call was cancelled while the tool ran")
        elif self._consuming and self.approval is not None:
            self.session.report_outcome(self.approval, "unknown", NEVER_STARTED)
        self.session.record(self)

    def context(self, event: HookEvent) -> HookContext:
        """What hooks are told about this call at ``event``."""
        return self.session.make_context(
            event,
            tool=self.tool,
            tool_name=self.name,
            tool_args=self.args,
            tool_result=self.result,
            error=self.error,
            reason=self.reason,
            metadata={
                **self._metadata, "tool_call_id": call_ids.shorten(self.tool_call_id), "call_id": self.id,
                "called_as": self.called_as,
            },
        )  # fmt: skip


def _refuse_halted(state: State) -> None:
    if state.halted:
        until = f" (until {state.until})" if state.until else ""
        raise Blocked("halted", (state.reason or "the agent is halted") + until)
