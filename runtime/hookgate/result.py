"""What hooks say, and what a tool call came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

CallStatus = Literal["succeeded", "failed", "blocked", "timed_out", "cancelled", "unknown"]


class TraceEntry(TypedDict):
    """One hook's part in a chain: ``ms`` its duration, ``changed`` the fields that it rewrote
    (``args.amount``, ``result``). ``outcome`` is one of the words of docs/runtime.md."""

    hook: str
    outcome: str
    ms: float
    changed: list[str]


@dataclass(slots=True)
class HookResult:
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
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  (a foreign __str__ may raise anything)
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class ToolBlocked(Exception):
    """Raised by `Outcome.raise_if_blocked`, and by nothing else. ``outcome`` is the whole story."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.observation)
        self.outcome = outcome


@dataclass(slots=True)
class Outcome:
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
