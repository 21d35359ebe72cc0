"""Run hooks in order: the pure heart of the runtime.

Nothing here knows the portal. A chain takes a context and hooks, and gives one merged result with a
trace; rewrites flow on, the first denial ends it, failures follow each hook's `on_error`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from time import perf_counter
from types import CoroutineType
from typing import Any, Final, Literal

from hookgate import canonical
from hookgate.context import (
    HookContext,
    forget_copies,
    read_args,
    rewrite_args,
    rewrite_result,
    variables,
)
from hookgate.engine.bounded import End, HookTimedOut, finish, run
from hookgate.engine.chains import Bound
from hookgate.events import BLOCKING_POINTS, TOOL_POINTS, HookEvent
from hookgate.matching import matching
from hookgate.origin import is_programs
from hookgate.result import HookResult, MergedResult, TraceEntry, describe_error
from hookgate.texts import readable

log = logging.getLogger("hookgate")

_RESULT_POINTS: Final = frozenset({HookEvent.POST_TOOL_USE})


async def run_chain(
    hooks: Sequence[Bound],
    context: HookContext,
    merged: MergedResult | None = None,
    failures: Counter[str] | None = None,
) -> MergedResult:
    """Run ``hooks`` in the given order and merge what they say into ``merged``.

    Never raises for what a hook did; cancellation passes. ``failures`` counts those let through, by hook name.
    """
    merged = MergedResult() if merged is None else merged
    trace, started = merged.trace, perf_counter()
    for bound in hooks:
        if context._args_view is not None or context._result_view is not None:
            forget_copies(context)
        failure = None
        if bound.asks_context:
            matches, started = _matches(bound, context, trace), perf_counter()
            if not matches:
                continue
        try:
            if bound.is_plain:
                # In place: most hooks never wait, and anything more than awaiting them would cost more than they do.
                result = await bound.execute(context)
            elif bound.may_abstain and not _triggers(bound, context):
                started = perf_counter()
                continue
            else:
                result, failure = await _run(bound, context)
            if failure is None and _says_nothing(result):
                began, started = started, perf_counter()  # the next one begins where this one ends
                took = (started - began) * 1000
                trace.append({"hook": bound.name, "outcome": bound.passes_as, "ms": took, "changed": []})
                continue
        except BaseException as error:
            if is_programs(error) or (bound.waits and _is_cancelled(error)):
                raise
            result, failure = None, error
        outcome, changed = _settle(bound, context, result, failure, merged, failures)
        trace.append(_entry(bound.name, outcome, started, changed))
        started = perf_counter()
        if not merged.allow and context.event in BLOCKING_POINTS:
            break
    return merged


async def _run(bound: Bound, context: HookContext) -> End:
    """A hook's answer, or how it failed, within its time."""
    coroutine: Any = bound.execute(context)
    if type(coroutine) is not CoroutineType:
        raise TypeError("execute() must be an async function")
    if bound.may_hang:
        return await run(coroutine, bound.timeout)
    return End(await (finish(coroutine, bound.timeout) if bound.waits else coroutine))


def _settle(
    bound: Bound,
    context: HookContext,
    result: Any,
    failure: BaseException | None,
    merged: MergedResult,
    failures: Counter[str] | None,
) -> tuple[str, list[str]]:
    """Merge a hook's answer, or its failure: the trace's word, and what it rewrote."""
    if failure is None:
        try:
            changed = _changes(_check_type(result), context)
        except Exception as error:  # noqa: BLE001  (an answer that is none is a failure like any other)
            failure = error
        else:
            return _apply(bound, context, result, merged), changed
    return _judge_failure(bound, context.event, failure, merged, failures), []


def _triggers(bound: Bound, context: HookContext) -> bool:
    answer: Any = bound.hook.should_trigger(context)
    if type(answer) is CoroutineType:
        answer.close()
        raise TypeError("should_trigger() must not be an async function")
    return bool(answer)


def _is_cancelled(error: BaseException) -> bool:
    """Whether it is the cancellation of this task."""
    task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) else None
    return task is not None and task.cancelling() > 0


def _says_nothing(result: Any) -> bool:
    """Whether this is the default answer, which most hooks give and which needs no further look."""
    return (
        type(result) is HookResult
        and result.allow is True
        and result.stop is False
        and not result.side_effects
        and result.error is None
        and result.modified_args is None
        and result.modified_result is None
        and result.additional_context is None
        and result.system_message is None
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
        merged.error = readable(result.error) if result.error else f"blocked by hook {bound.name}"
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
        merged.side_effects.extend(map(readable, result.side_effects))
    if result.additional_context:
        merged.additional_context = _join(merged.additional_context, readable(result.additional_context))
    if result.system_message:
        merged.system_message = _join(merged.system_message, readable(result.system_message))
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
