"""A ReAct loop: the model thinks, picks tools, reads what came of them, until it answers.

Every hook point is wired: the prompt is submitted, each tool call passes its chain (several of one reply
at the same time), compaction and the end are asked for, a model that fails is reported.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from hookgate.copying import CopiedSlots
from hookgate.engine import signatures
from hookgate.events import HookEvent
from hookgate.loops import naming
from hookgate.origin import is_programs
from hookgate.result import HookResult, Outcome, describe_error
from hookgate.session.session import Session

Message = dict[str, Any]
Tool = Callable[[dict[str, Any]], Any]
Ending = Literal["answered", "refused", "stopped", "failed", "used_up"]

# A Stop hook that never agrees must not keep an agent at work for ever.
MAX_STOP_DENIALS: Final = 8


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool that the model picked. ``id`` is the model's own id of the call. It stands in the messages; the call is
    made under one that is its own in the conversation, and the same when the conversation is replayed."""

    id: str
    name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model said: a text, and the tools it picked. Without tools it is the answer."""

    text: str = ""
    tool_calls: tuple[ToolRequest, ...] = ()


Model = Callable[[Sequence[Message]], Awaitable[Reply]]
Compact = Callable[[list[Message]], Awaitable[list[Message]]]


@dataclass(slots=True)
class Run(CopiedSlots):
    """What a loop came to.

    ``ended``: ``answered``; ``refused`` (a hook refused the prompt); ``stopped`` (a hook asked the loop to
    end); ``failed`` (the model raised); ``used_up`` (turns, or denials by Stop hooks). ``reason`` says more
    for all but the first. ``messages`` is the conversation, ``outcomes`` every tool call in order.
    """

    messages: list[Message]
    outcomes: list[Outcome] = field(default_factory=list)
    ended: Ending = "answered"
    text: str = ""
    reason: str | None = None

    def end(self, ended: Ending, reason: str | None = None) -> Run:
        """Settle how it ended."""
        self.ended, self.reason = ended, reason
        return self


async def run(
    session: Session,
    prompt: str,
    *,
    model: Model,
    tools: Mapping[str, Tool],
    max_turns: int = 25,
    compact: Compact | None = None,
    compact_after: int = 100,
    name: str | None = None,
) -> Run:
    """Play one prompt of ``session`` to its end.

    ``model`` is async; it gets the messages so far and returns a `Reply`. Messages are
    ``{"role": "system"|"user"|"assistant"|"tool", "content"}``, with ``tool_calls`` ``[{"id", "name", "args"}]`` at an
    assistant's and ``tool_call_id`` at a tool's. ``compact`` shortens them once there are more than ``compact_after``,
    if the hooks let it. ``name`` tells this run from the others of its conversation, for a process that goes on with
    one whose earlier prompts it hasn't played. Raises nothing for what hooks, tools or the model did, and TypeError for
    a model that returns something else and, before it is asked, for a tool that can't take its arguments as one dict
    (`hookgate.by_name`); cancellation passes.
    """
    _check_model(model)
    signatures.check_all(tools)
    ids = naming.begin(session, prompt, name)
    run = await _play(session, prompt, model, tools, max_turns, compact, compact_after, ids)
    if not session.leaving:
        ids.finish()
    return run


async def _play(
    session: Session,
    prompt: str,
    model: Model,
    tools: Mapping[str, Tool],
    max_turns: int,
    compact: Compact | None,
    compact_after: int,
    ids: naming.RunIds,
) -> Run:
    loop = Run([{"role": "system", "content": session.context}] if session.context else [])
    submitted = await session.emit(HookEvent.USER_PROMPT_SUBMIT, prompt=prompt)
    if not submitted.allow:
        return loop.end("refused", submitted.error)
    loop.messages.append({"role": "user", "content": prompt})
    _add_texts(loop, submitted)
    if submitted.stop:
        return loop.end("stopped", "a hook at UserPromptSubmit asked to stop")
    denials = 0
    for _ in range(max_turns):
        await _make_room(session, loop, compact, compact_after)
        reply = await _ask(session, loop, model)
        if reply is None:
            return loop
        _add_reply(loop, reply)
        if reply.tool_calls:
            if await _act(session, loop, reply.tool_calls, tools, ids):
                return loop.end("stopped", "a hook asked to stop")
            continue
        objection = await _try_to_stop(session, loop)
        if objection is None:
            return loop
        denials += 1
        if denials >= MAX_STOP_DENIALS:
            return loop.end("used_up", objection)
    return loop.end("used_up", f"no answer within {max_turns} turns")


async def _ask(session: Session, loop: Run, model: Model) -> Reply | None:
    """The model's next reply; None where it failed, which hooks are told and the loop has noted."""
    try:
        answer = model(loop.messages)
        reply = await answer if inspect.isawaitable(answer) else answer
    except BaseException as error:
        # A model's client may raise anything.
        if isinstance(error, asyncio.CancelledError) or is_programs(error):
            raise
        await session.emit(HookEvent.STOP_FAILURE, error=describe_error(error))
        loop.end("failed", describe_error(error))
        return None
    _check_reply(answer, reply)
    return reply


async def _make_room(session: Session, loop: Run, compact: Compact | None, compact_after: int) -> None:
    if compact is None or len(loop.messages) <= compact_after:
        return
    asked = await session.emit(HookEvent.PRE_COMPACT, source="auto")
    if not asked.allow:
        return
    loop.messages = await compact(loop.messages)
    _add_texts(loop, await session.emit(HookEvent.POST_COMPACT, source="auto"))


async def _act(
    session: Session,
    loop: Run,
    requests: Sequence[ToolRequest],
    tools: Mapping[str, Tool],
    ids: naming.RunIds,
) -> bool:
    """Run the tools of one reply at the same time; True when a hook wants the loop to end."""
    async with asyncio.TaskGroup() as group:
        calls = [
            group.create_task(_call(session, request, tools, ids.give(request.id))) for request in requests
        ]
    stop = False
    for request, call in zip(requests, calls, strict=True):
        outcome = call.result()
        if outcome is None:
            observation = f"There is no tool called {request.name}."
        elif isinstance(outcome, str):
            observation, outcome = outcome, None
        else:
            loop.outcomes.append(outcome)
            observation = outcome.observation
            stop = stop or outcome.stop
        loop.messages.append({"role": "tool", "tool_call_id": request.id, "content": observation})
        if outcome is not None and outcome.system_message:
            loop.messages.append({"role": "system", "content": outcome.system_message})
    return stop


async def _call(
    session: Session, request: ToolRequest, tools: Mapping[str, Tool], call_id: Any
) -> Outcome | str | None:
    """None for a tool that this program doesn't have, what is wrong with arguments that its function hasn't: nobody is
    asked to approve what can't run."""
    execute = tools.get(request.name)
    if execute is None:
        return None
    try:
        signatures.check(execute, request.args)
    except TypeError as error:
        return f"Tool call {request.name} can't be made: {error}"
    return await session.call_tool(request.name, request.args, execute=execute, tool_call_id=call_id)


async def _try_to_stop(session: Session, loop: Run) -> str | None:
    """None when the loop may end; else what a hook wants done before, which the model gets to read."""
    asked = await session.may_stop(reason="answered", answer=loop.text)
    if asked.allow:
        return None
    objection = f"{asked.blocked_by}: {asked.error}"
    loop.messages.append({"role": "user", "content": objection})
    return objection


def _check_model(model: Any) -> None:
    if not callable(model):
        raise TypeError(f"model must be an async function of the messages, not {type(model).__name__}")


def _check_reply(answer: Any, reply: Any) -> None:
    """What the model returned is a `Reply`, or has all that one has. Raises TypeError."""
    wanted = "model must be async and return hookgate.loops.react.Reply(text, tool_calls)"
    if not inspect.isawaitable(answer):
        raise TypeError(f"{wanted}; it returned {type(answer).__name__} and is not async")
    calls = getattr(reply, "tool_calls", None)
    if not isinstance(getattr(reply, "text", None), str) or not isinstance(calls, tuple | list):
        raise TypeError(f"{wanted}, not {type(reply).__name__}")
    for call in calls:
        if not isinstance(getattr(call, "name", None), str) or not (
            hasattr(call, "id") and hasattr(call, "args")
        ):
            raise TypeError(
                f"{wanted}; its tool_calls hold ToolRequest(id, name, args), not {type(call).__name__}"
            )


def _add_reply(loop: Run, reply: Reply) -> None:
    loop.text = reply.text
    message: Message = {"role": "assistant", "content": reply.text}
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": request.id, "name": request.name, "args": request.args} for request in reply.tool_calls
        ]
    loop.messages.append(message)


def _add_texts(loop: Run, merged: HookResult) -> None:
    for text in (merged.additional_context, merged.system_message):
        if text:
            loop.messages.append({"role": "system", "content": text})
