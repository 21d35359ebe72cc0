"""The hooks of one agent, bound to what decides when they run, and in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from hookgate.context import HookContext
from hookgate.engine.bounded import suspends
from hookgate.events import TOOL_POINTS, HookEvent
from hookgate.hook import Hook
from hookgate.matching import matching

if TYPE_CHECKING:
    from hookgate.spec import HookSpec

DEFAULT_TIMEOUT: Final = 30.0


@dataclass(frozen=True, slots=True)
class Bound:
    """A hook and everything that decides when it runs and what its failure means."""

    hook: Hook
    name: str
    points: tuple[HookEvent, ...]
    priority: int
    timeout: float | None
    on_error: Literal["deny", "allow"] | None = None
    observe: bool = False
    closes_calls: bool = False
    is_gate: bool = False
    matches_tool: matching.Predicate | None = None
    matches_subject: matching.Predicate | None = None
    condition: matching.Condition | None = None
    # What a chain needs to know of every hook at every call, worked out once.
    asks_context: bool = field(init=False)
    waits: bool = field(init=False)
    may_hang: bool = field(init=False)
    may_abstain: bool = field(init=False)
    passes_as: str = field(init=False)
    # Runs in place, with nothing to ask before.
    is_plain: bool = field(init=False)
    execute: Callable[[HookContext], Any] = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "asks_context", self.condition is not None or self.matches_subject is not None)
        # Ours end when they are cancelled, and most others never wait: those need no task of their own.
        ours = type(self.hook).__module__.startswith("hookgate.catalogue.")
        put(self, "waits", suspends(self.hook.execute))
        put(self, "may_hang", self.waits and not ours)
        # The base class always triggers and needs no asking.
        own = getattr(self.hook.should_trigger, "__func__", None) is not Hook.should_trigger
        put(self, "may_abstain", own)
        put(self, "passes_as", "would_allow" if self.observe else "allowed")
        put(self, "is_plain", not (self.asks_context or self.waits or own))
        put(self, "execute", self.hook.execute)

    @classmethod
    def of_spec(cls, spec: HookSpec, hook: Hook) -> Bound:
        """A declared hook."""
        timeout = spec.timeout_seconds or (spec.handler.timeout if spec.handler else None) or DEFAULT_TIMEOUT
        # The gate waits for people: its bound is its policy's, at the portal.
        is_gate = hook.waits_for_people
        return cls(
            hook=hook,
            name=spec.name,
            points=spec.points,
            priority=spec.priority,
            timeout=None if is_gate else timeout,
            on_error=spec.on_error,
            observe=spec.mode == "observe",
            closes_calls=hook.closes_calls,
            is_gate=is_gate,
            matches_tool=None if is_gate else spec.matches_tool,
            matches_subject=spec.matches_subject,
            condition=None if is_gate else spec.condition,
        )

    @classmethod
    def of_hook(cls, hook: Hook) -> Bound:
        """A hook registered in code. Raises TypeError, ValueError or MatchError for one that can't run."""
        if not isinstance(hook, Hook):
            raise TypeError(f"{hook!r} is not a Hook; derive it from PreToolUseHook or another base class")
        if not hook.points:
            raise ValueError(f"{type(hook).__name__} names no hook points")
        tool_filter = hook.tool_filter
        return cls(
            hook=hook,
            name=hook.name or type(hook).__name__,
            points=tuple(map(HookEvent, hook.points)),
            priority=hook.priority,
            timeout=hook.timeout_seconds or DEFAULT_TIMEOUT,
            on_error=hook.on_error,
            matches_tool=None if tool_filter is None else matching.compile_tool_filter(tool_filter),
        )

    def failure_policy(self, event: HookEvent) -> Literal["deny", "allow"]:
        """What a failure at ``event`` means."""
        return self.on_error or self.hook.failure_policy(event)


class Chains:
    """The hooks of one agent, ordered, and indexed by tool as tools come up. Immutable in effect."""

    _MAX_INDEX: Final = 2048

    def __init__(self, hooks: Iterable[Bound]) -> None:
        ordered = sorted(hooks, key=lambda bound: (bound.is_gate, bound.priority))
        self.gate = next((bound for bound in ordered if bound.is_gate), None)
        self._points = {
            event: tuple(bound for bound in ordered if event in bound.points) for event in HookEvent
        }
        self._index: dict[tuple[str, str], tuple[Bound, ...]] = {}

    def at(self, event: HookEvent) -> tuple[Bound, ...]:
        """Every hook of a point, in order, whatever its filters say."""
        return self._points[event]

    def select(self, event: HookEvent, tool_name: str) -> tuple[Bound, ...]:
        """The hooks whose filter and matcher let this tool through; conditions are still to be asked.
        Without the gate and without the hooks that close a call: those have their own moments."""
        key = (event._value_, tool_name)  # a member's own hash is computed in Python
        found = self._index.get(key)
        if found is None:
            found = self._filter(event, tool_name)
            # Tool names may be a model's inventions: the index must not grow with them.
            if len(self._index) >= self._MAX_INDEX:
                self._index.clear()
            self._index[key] = found
        return found

    def _filter(self, event: HookEvent, tool_name: str) -> tuple[Bound, ...]:
        hooks = self._points[event]
        if event not in TOOL_POINTS:
            return hooks
        return tuple(
            bound
            for bound in hooks
            if not (bound.is_gate or _is_closing(bound, event))
            and (bound.matches_tool is None or bound.matches_tool(tool_name))
            and (bound.matches_subject is None or bound.matches_subject(tool_name))
        )

    def closers(self, event: HookEvent) -> tuple[Bound, ...]:
        """The hooks that run last of all, when a call's outcome is known."""
        return tuple(bound for bound in self._points[event] if _is_closing(bound, event))


def _is_closing(bound: Bound, event: HookEvent) -> bool:
    return bound.closes_calls and event is not HookEvent.PRE_TOOL_USE
