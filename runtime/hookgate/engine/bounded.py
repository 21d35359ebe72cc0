"""Await foreign code for a bounded time, whatever it does with its cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
import opcode
from collections.abc import Callable, Coroutine
from types import CodeType
from typing import Any, Final, NamedTuple

from hookgate import origin

log = logging.getLogger("hookgate")

# Seconds that a hook has for its clean-up once its time is over.
_GRACE: Final = 0.25
_SEND: Final = opcode.opmap["SEND"]
_UNSET: Final = object()
# Tasks that go on although they were cancelled; the loop itself holds them weakly.
_abandoned: set[asyncio.Task[Any]] = set()


class HookTimedOut(Exception):
    """A hook used up its time."""


class End(NamedTuple):
    """How foreign code ended: with a value, or with an exception of its own."""

    value: Any = None
    error: BaseException | None = None


def suspends(function: Callable[..., Any]) -> bool:
    """Whether a call may have to wait. An ``async def`` without an ``await`` never does, and can't be cancelled."""
    while isinstance(function, functools.partial):
        function = function.func
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None) or getattr(type(plain).__call__, "__code__", None)
    return not isinstance(code, CodeType) or _may_wait(code)


@functools.lru_cache(maxsize=1024)
def _may_wait(code: CodeType) -> bool:
    return not code.co_flags & inspect.CO_COROUTINE or _SEND in code.co_code[::2]


async def contain(work: Coroutine[Any, Any, Any]) -> End:
    """How ``work`` ended. Raises only what is meant for the program."""
    try:
        return End(await work)
    except BaseException as error:
        if origin.is_programs(error):
            raise
        return End(None, error)


async def run(work: Coroutine[Any, Any, Any], seconds: float | None, *, grace: float = _GRACE) -> End:
    """How ``work`` ended; `HookTimedOut` after ``seconds`` (None: without a bound).

    It runs in a task of its own. So a cancellation that reaches the caller is the program's, one that ``work`` raises
    is its own; and one that it swallows holds nobody up: after ``grace`` seconds more it is left to itself.
    """
    context = contextvars.copy_context()
    task = asyncio.get_running_loop().create_task(contain(work), context=context)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _let_go(task, grace)
        raise
    except BaseException:
        task.cancel()
        raise
    if not done:
        await _let_go(task, grace)
        return End(None, HookTimedOut(f"no answer within {seconds} s"))
    for variable in context:
        # As if it had been awaited here.
        if variable.get(_UNSET) is not context[variable]:
            variable.set(context[variable])
    return End(None, asyncio.CancelledError()) if task.cancelled() else task.result()


async def _let_go(task: asyncio.Task[Any], grace: float) -> None:
    task.cancel()
    try:
        await asyncio.wait({task}, timeout=grace)
    finally:
        if not task.done():
            log.warning("something goes on although it was cancelled: %r", task)
            _abandoned.add(task)
            task.add_done_callback(_abandoned.discard)
            # Whoever ends the loop must not wait for it either.
            asyncio.tasks._unregister_task(task)


async def finish(work: Coroutine[Any, Any, Any], seconds: float | None) -> Any:
    """The value of a coroutine of ours, which ends when it is cancelled; everybody else's goes through `run`.

    Raises HookTimedOut after ``seconds``; None is without a bound.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise HookTimedOut(f"no answer within {seconds} s") from None
        raise
