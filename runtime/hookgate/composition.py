"""Run hooks in order: the pure heart of the runtime.

Nothing here knows the portal. A chain takes a context and hooks, and gives one merged result with a
trace; rewrites flow on, the first denial ends it, failures follow each hook's `on_error`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Literal

from hookgate import canonical, matching
from hookgate.bounded import HookTimedOut, finish
from hookgate.context import (
    HookContext,
    begin_hook,
    read_args,
    rewrite_args,
    rewrite_result,
    variables,
)
from hookgate.events import BLOCKING_POINTS, TOOL_POINTS, HookEvent
from hookgate.hook import Hook
from hookgate.result import HookResult, MergedResult, TraceEntry, describe_error

if TYPE_CHECKING:
    from hookgate.manifest import HookSpec

log = logging.getLogger("hookgate")

DEFAULT_TIMEOUT: Final = 30.0
_RESULT_POINTS: Final = frozenset({HookEvent.POST_TOOL_USE})


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
    may_abstain: bool = field(init=False)
    passes_as: str = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "asks_context", self.condition is not None or self.matches_subject is not None)
        # The base class always triggers and needs no asking.
        own = getattr(self.hook.should_trigger, "__func__", None) is not Hook.should_trigger
        put(self, "may_abstain", own)
        put(self, "passes_as", "would_allow" if self.observe else "allowed")

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
        self._index: dict[tuple[HookEvent, str], tuple[Bound, ...]] = {}

    def at(self, event: HookEvent) -> tuple[Bound, ...]:
        """Every hook of a point, in order, whatever its filters say."""
        return self._points[event]

    def select(self, event: HookEvent, tool_name: str) -> tuple[Bound, ...]:
        """The hooks whose filter and matcher let this tool through; conditions are still to be asked.
        Without the gate and without the hooks that close a call: those have their own moments."""
        key = (event, tool_name)
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


async def run_chain(
    hooks: Sequence[Bound],
    context: HookContext,
    merged: MergedResult | None = None,
    failures: Counter[str] | None = None,
) -> MergedResult:
    """Run ``hooks`` in the given order and merge what they say into ``merged``.

    Never raises for what a hook did; cancellation passes. ``failures`` counts the failures that were
    let through, by hook name.
    """
    merged = MergedResult() if merged is None else merged
    trace = merged.trace
    for bound in hooks:
        begin_hook(context)
        if bound.asks_context and not _matches(bound, context, trace):
            continue
        started = perf_counter()
        try:
            if bound.may_abstain and not bound.hook.should_trigger(context):
                continue
            coroutine: Any = bound.hook.execute(context)
            if type(coroutine) is not CoroutineType:
                raise TypeError("execute() must be an async function")
            try:
                pending = coroutine.send(None)
            except StopIteration as end:
                result = end.value
            else:
                result = await finish(coroutine, pending, bound.timeout)
            if _says_nothing(result):
                trace.append(_entry(bound.name, bound.passes_as, started, []))
                continue
            changed = _changes(_check_type(result), context)
        except BaseException as error:
            if not is_ours(error):
                raise
            outcome = _judge_failure(bound, context.event, error, merged, failures)
            changed = []
        else:
            outcome = _apply(bound, context, result, merged)
        trace.append(_entry(bound.name, outcome, started, changed))
        if not merged.allow and context.event in BLOCKING_POINTS:
            break
    return merged


def _says_nothing(result: Any) -> bool:
    """Whether this is the default answer, which most hooks give and which needs no further look."""
    return (
        type(result) is HookResult
        and result.allow is True
        and result.modified_args is None
        and result.modified_result is None
        and result.error is None
        and not result.side_effects
        and result.additional_context is None
        and result.system_message is None
        and result.stop is False
    )


def _check_type(result: Any) -> HookResult:
    if not isinstance(result, HookResult):
        raise TypeError(f"a hook returns a HookResult, not {type(result).__name__}")
    if not isinstance(result.allow, bool) or not isinstance(result.stop, bool):
        raise TypeError("HookResult.allow and .stop are true or false")
    for text in (result.error, result.additional_context, result.system_message):
        if text is not None and not isinstance(text, str):
            raise TypeError("HookResult.error, .additional_context and .system_message are texts")
    if result.side_effects and not (
        isinstance(result.side_effects, list) and all(isinstance(item, str) for item in result.side_effects)
    ):
        raise TypeError("HookResult.side_effects is a list of texts")
    return result


def _changes(result: HookResult, context: HookContext) -> list[str]:
    """Which fields a result rewrites. Raises NotCanonical or TypeError for arguments that can't be."""
    if result.modified_args is not None and context.event is HookEvent.PRE_TOOL_USE:
        if not isinstance(result.modified_args, dict):
            raise TypeError("HookResult.modified_args is a dict")
        canonical.check(result.modified_args, path="modified_args")
        before, after = read_args(context), result.modified_args
        names = [name for name in {**before, **after} if not _same(before, after, name)]
        return [f"args.{name}" for name in names]
    if result.modified_result is not None and context.event in _RESULT_POINTS:
        return ["result"]
    return []


def _same(before: dict[str, Any], after: dict[str, Any], name: str) -> bool:
    if name not in before or name not in after:
        return False
    # 1, 1.0 and True are equal to Python and different calls to a tool.
    return before[name] is after[name] or canonical.canonicalize(before[name]) == canonical.canonicalize(
        after[name]
    )


def _apply(bound: Bound, context: HookContext, result: HookResult, merged: MergedResult) -> str:
    denied = not result.allow and context.event in BLOCKING_POINTS
    if bound.observe:
        if denied:
            return "would_deny"
        rewrite = {
            HookEvent.PRE_TOOL_USE: result.modified_args,
            HookEvent.POST_TOOL_USE: result.modified_result,
        }
        return "would_allow" if rewrite.get(context.event) is None else "would_change"
    _merge_texts(result, merged)
    if denied:
        merged.allow = False
        merged.blocked_by = bound.name
        merged.error = result.error or f"blocked by hook {bound.name}"
        return "denied"
    if result.modified_args is not None and context.event is HookEvent.PRE_TOOL_USE:
        merged.modified_args = canonical.copy(result.modified_args)
        rewrite_args(context, merged.modified_args)
    if result.modified_result is not None and context.event in _RESULT_POINTS:
        merged.modified_result = result.modified_result
        rewrite_result(context, result.modified_result)
    return "allowed" if result.allow else "ignored"


def _merge_texts(result: HookResult, merged: MergedResult) -> None:
    if result.side_effects:
        merged.side_effects.extend(result.side_effects)
    if result.additional_context:
        merged.additional_context = _join(merged.additional_context, result.additional_context)
    if result.system_message:
        merged.system_message = _join(merged.system_message, result.system_message)
    merged.stop = merged.stop or result.stop


def _join(first: str | None, second: str) -> str:
    return f"{first}\n\n{second}" if first else second


def _judge_failure(
    bound: Bound,
    event: HookEvent,
    error: BaseException,
    merged: MergedResult,
    failures: Counter[str] | None,
) -> str:
    word = "timed_out" if isinstance(error, HookTimedOut) else "failed"
    if bound.observe:
        return f"would_{'time_out' if word == 'timed_out' else 'fail'}"
    policy = bound.failure_policy(event)
    log.warning("hook %s %s at %s, on_error=%s: %s", bound.name, word, event, policy, describe_error(error))
    if policy == "allow":
        if failures is not None:
            failures[bound.name] += 1
        return f"{word}_allowed"
    if merged.allow:
        # Who spoke first stands: where nothing can be blocked the others run all the same.
        merged.allow = False
        merged.blocked_by = bound.name
        merged.error = f"the hook {word.replace('_', ' ')}: {describe_error(error)}"
    return f"{word}_denied"


def is_ours(error: BaseException) -> bool:
    """Whether an exception is the hook's or the tool's: not the program's end, not this task's cancellation."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() == 0
    return not isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit)


def _matches(bound: Bound, context: HookContext, trace: list[TraceEntry]) -> bool:
    """The filters that depend on more than the tool's name."""
    if bound.matches_subject is not None and context.event not in TOOL_POINTS:
        subject = context.source or context.reason
        if subject is not None and not bound.matches_subject(subject):
            return False
    if bound.condition is None:
        return True
    condition = bound.condition
    started = perf_counter()
    try:
        return condition.evaluate(variables(context, condition.names))
    except matching.MatchError as error:
        policy = bound.failure_policy(context.event)
        return _judge_condition(error, context, trace, started, name=bound.name, on_error=policy)


def ask(
    condition: matching.Condition,
    context: HookContext,
    trace: list[TraceEntry],
    *,
    name: str,
    on_error: Literal["deny", "allow"],
) -> bool:
    """A condition's verdict; one that can't be evaluated matches where failures deny. Both are traced."""
    started = perf_counter()
    try:
        return condition.evaluate(variables(context, condition.names))
    except matching.MatchError as error:
        return _judge_condition(error, context, trace, started, name=name, on_error=on_error)


def _judge_condition(
    error: matching.MatchError,
    context: HookContext,
    trace: list[TraceEntry],
    started: float,
    *,
    name: str,
    on_error: Literal["deny", "allow"],
) -> bool:
    matched = on_error == "deny"
    log.warning("condition of %s at %s: %s", name, context.event, error.message)
    trace.append(_entry(name, "condition_failed_ran" if matched else "condition_failed_skipped", started, []))
    return matched


def _entry(name: str, outcome: str, started: float, changed: list[str]) -> TraceEntry:
    return {"hook": name, "outcome": outcome, "ms": (perf_counter() - started) * 1000, "changed": changed}
