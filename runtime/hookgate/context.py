"""What a hook is told."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NoReturn

from hookgate import canonical
from hookgate.events import HookEvent


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What the registry says about the tool in hand. ``connector`` is the part before the first ``__``."""

    name: str
    connector: str | None
    action: str
    writes: bool
    requires_confirmation: bool
    listed: bool = True
    redact: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose session it is, as conditions see it: ``agent`` {id, slug, organization}, ``user`` {id, name, email}."""

    agent: Mapping[str, Any]
    user: Mapping[str, Any] | None


class HookContext:
    """One moment of the loop, read-only.

    Every hook gets its own copy of ``tool_args`` and ``tool_result``: what a hook changes in place is
    lost, rewrites are returned as `HookResult.modified_args` and `modified_result`. ``metadata`` always
    has ``org_id``, ``conversation_id``, ``tool_call_id``, ``connector``, ``action``, ``writes`` and
    ``requires_confirmation`` inside a session.
    """

    __slots__ = (
        "_args", "_args_view", "_result", "_result_view", "agent_id", "conversation_id", "error", "event",
        "metadata", "prompt", "reason", "session_id", "source", "subject", "surface", "tool", "tool_name",
        "user_id",
    )  # fmt: skip

    event: HookEvent
    tool_name: str
    error: str | None
    agent_id: str | None
    user_id: str | None
    conversation_id: str | None
    session_id: str | None
    surface: str | None
    prompt: str | None
    source: str | None
    reason: str | None
    metadata: dict[str, Any]
    tool: ToolFacts | None
    subject: Subject | None
    _args: dict[str, Any] | None
    _args_view: dict[str, Any] | None
    _result: Any
    _result_view: Any

    def __init__(
        self,
        event: HookEvent | str = HookEvent.PRE_TOOL_USE,
        tool_name: str = "",
        tool_args: dict[str, Any] | None = None,
        tool_result: Any = None,
        error: str | None = None,
        agent_id: str | None = None,
        user_id: str | None = None,
        conversation_id: str | None = None,
        session_id: str | None = None,
        surface: str | None = None,
        prompt: str | None = None,
        source: str | None = None,
        reason: str | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        tool: ToolFacts | None = None,
        subject: Subject | None = None,
    ) -> None:
        put = _put
        put(self, "event", event if type(event) is HookEvent else HookEvent(event))
        put(self, "tool_name", tool_name)
        put(self, "_args", tool_args)
        put(self, "_args_view", None)
        put(self, "_result", tool_result)
        put(self, "_result_view", None)
        put(self, "error", error)
        put(self, "agent_id", agent_id)
        put(self, "user_id", user_id)
        put(self, "conversation_id", conversation_id)
        put(self, "session_id", session_id)
        put(self, "surface", surface)
        put(self, "prompt", prompt)
        put(self, "source", source)
        put(self, "reason", reason)
        put(self, "metadata", {} if metadata is None else metadata)
        put(self, "tool", tool)
        put(self, "subject", subject)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"HookContext.{name} is read-only; return a HookResult to change something")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        # Without the views, which are made anew.
        return {name: getattr(self, name) for name in self.__slots__ if not name.endswith("_view")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in {"_args_view": None, "_result_view": None, **state}.items():
            _put(self, name, value)

    def __repr__(self) -> str:
        return f"HookContext({self.event}, tool_name={self.tool_name!r})"

    def at(self, event: HookEvent) -> HookContext:
        """The same moment seen from another hook point."""
        return HookContext(
            event, self.tool_name, self._args, self._result, self.error, self.agent_id, self.user_id,
            self.conversation_id, self.session_id, self.surface, self.prompt, self.source, self.reason,
            self.metadata, tool=self.tool, subject=self.subject,
        )  # fmt: skip

    @property
    def tool_args(self) -> dict[str, Any]:
        """The arguments as rewritten so far; this hook's own copy."""
        if self._args_view is None:
            _put(self, "_args_view", canonical.copy(self._args or {}))
        return self._args_view  # type: ignore[return-value]

    @property
    def tool_result(self) -> Any:
        """The tool's result as rewritten so far; this hook's own copy of lists and dicts."""
        if not isinstance(self._result, dict | list):
            return self._result
        if self._result_view is None:
            _put(self, "_result_view", _copy_result(self._result))
        return self._result_view


_put = object.__setattr__


def _copy_result(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001  (a result may hold anything, a socket for one; then it is shared)
        return value


def forget_copies(context: HookContext) -> None:
    """Before the next hook: the previous one may have changed the copies that it got."""
    _put(context, "_args_view", None)
    _put(context, "_result_view", None)


def rewrite_args(context: HookContext, args: dict[str, Any]) -> None:
    """Let the following hooks see ``args``."""
    _put(context, "_args", args)


def rewrite_result(context: HookContext, result: Any) -> None:
    """Let the following hooks see ``result``."""
    _put(context, "_result", result)


def read_args(context: HookContext) -> dict[str, Any]:
    """The arguments themselves, for code that doesn't change them."""
    return context._args or {}


def read_result(context: HookContext) -> Any:
    """The result itself, for code that doesn't change it."""
    return context._result


def variables(context: HookContext, names: Iterable[str]) -> dict[str, Any]:
    """The variables ``names`` of a condition. They alias the context: a condition changes nothing."""
    return {name: _READ[name](context) for name in names}


def _describe_tool(context: HookContext) -> dict[str, Any] | None:
    tool = context.tool
    return None if tool is None else {
        "name": tool.name, "connector": tool.connector, "action": tool.action,
        "writes": tool.writes, "requires_confirmation": tool.requires_confirmation,
    }  # fmt: skip


def _describe_agent(context: HookContext) -> Mapping[str, Any]:
    if context.subject:
        return context.subject.agent
    return {"id": context.agent_id, "slug": None, "organization": None}


_READ: Final[Mapping[str, Callable[[HookContext], Any]]] = {
    "event": lambda context: str(context.event),
    "tool": _describe_tool,
    "args": read_args,
    "result": read_result,
    "error": attrgetter("error"),
    "agent": _describe_agent,
    "user": lambda context: context.subject.user if context.subject else None,
    "surface": attrgetter("surface"),
    "metadata": attrgetter("metadata"),
}
