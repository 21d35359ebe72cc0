"""What hooks say, and what a tool call came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from hookgate import texts
from hookgate.copying import Copied, CopiedSlots

CallStatus = Literal["succeeded", "failed", "blocked", "timed_out", "cancelled", "unknown"]


class TraceEntry(TypedDict):
    """One hook's part in a chain: ``ms`` its duration, ``changed`` the fields that it rewrote
    (``args.amount``, ``result``). ``outcome`` is one of the words of docs/runtime.md."""

    hook: str
    outcome: str
    ms: float
    changed: list[str]


@dataclass(slots=True)
class HookResult(CopiedSlots):
    """A hook's answer. The default lets everything pass and changes nothing.

    ``allow`` counts on PreToolUse, UserPromptSubmit, Stop, SubagentStop and PreCompact. ``error`` is the
    reason, which the model sees. ``modified_args`` (PreToolUse) and ``modified_result`` (PostToolUse)
    replace what the next hook gets; None leaves it. ``stop`` asks the loop to end.
    """

    allow: bool = True
    error: str | None = None
    modified_args: dict[str, Any] | None = None
    modified_result: Any = None
    side_effects: list[str] = field(default_factory=list)
    additional_context: str | None = None
    system_message: str | None = None
    stop: bool = False


@dataclass(slots=True)
class MergedResult(HookResult):
    """A whole chain's answer: the last rewrites, all side effects, texts joined by an empty line.

    ``blocked_by`` is the hook that ended the chain. ``trace`` has one entry per hook that ran.
    """

    blocked_by: str | None = None
    trace: list[TraceEntry] = field(default_factory=list)


def describe_error(error: BaseException) -> str:
    """``TypeError: message``, also for an exception that can't say what it is."""
    text, name = texts.say(error), texts.name_type(error)
    return f"{name}: {text}" if text else name


class OutcomeUnknown(Copied, Exception):
    """For a tool to raise when nobody knows whether it has taken effect: reported as ``unknown``, not as failed."""


def judge_end(error: BaseException | None) -> CallStatus:
    """How a call ended whose tool raised ``error``, or returned (None).

    ``timed_out`` and ``unknown`` say that it may have taken effect all the same: the error itself, a part of it, or
    what it was raised from is a `TimeoutError` or `OutcomeUnknown`.
    """
    if error is None:
        return "succeeded"
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    found: CallStatus = "failed"
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        if isinstance(link, OutcomeUnknown):
            return "unknown"
        if isinstance(link, TimeoutError):
            found = "timed_out"
        seen.add(id(link))
        if isinstance(link, BaseExceptionGroup):
            waiting += link.exceptions
        waiting.append(link.__cause__)
        if not link.__suppress_context__:
            waiting.append(link.__context__)
    return found


class ToolBlocked(Copied, Exception):
    """Raised by `Outcome.raise_if_blocked`, and by nothing else. ``outcome`` is the whole story."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.observation)
        self.outcome = outcome


@dataclass(slots=True)
class Outcome(CopiedSlots):
    """What a tool call came to.

    ``blocked`` says that the tool did not run, ``blocked_by`` and ``reason`` who stopped it and why.
    ``withheld`` says that it ran and that a hook keeps its result from the model. ``observation`` is the
    text for the model in every case. ``args`` are the arguments that ran (None when none did).
    """

    tool_name: str
    tool_call_id: str
    status: CallStatus
    observation: str
    blocked: bool = False
    blocked_by: str | None = None
    reason: str | None = None
    result: Any = None
    error: str | None = None
    withheld: bool = False
    args: dict[str, Any] | None = None
    confirmation_id: str | None = None
    trace: list[TraceEntry] = field(default_factory=list)
    side_effects: list[str] = field(default_factory=list)
    system_message: str | None = None
    stop: bool = False

    def raise_if_blocked(self) -> None:
        """Raise ToolBlocked unless the tool ran."""
        if self.blocked:
            raise ToolBlocked(self)


class Blocked(Copied, Exception):
    """The call may not run. ``by`` is a hook or one of the words of docs/runtime.md."""

    def __init__(self, by: str, reason: str, status: CallStatus = "blocked") -> None:
        super().__init__(reason)
        self.by = by
        self.reason = texts.readable(reason)
        self.status = status
