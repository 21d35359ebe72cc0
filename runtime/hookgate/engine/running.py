"""Run a tool to its end: a lazy result is a tool that has not run."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import io
import types
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterator
from typing import Any, Final

from hookgate.engine import bounded, threads
from hookgate.engine.bounded import End
from hookgate.result import OutcomeUnknown

# Runs plain code where this runtime lets it run: in a thread, or in the thread that made the call.
Plain = Callable[..., Coroutine[Any, Any, End]]
Tool = Callable[[dict[str, Any]], Any]

# A result that yields more has no end that anybody could wait for.
_MOST: Final = 1_000_000
_SCALARS: Final = frozenset({str, int, float, bool, type(None), bytes})
_CONTAINERS: Final = frozenset({dict, list, tuple})
_FUNCTIONS: Final = (
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial,
)  # fmt: skip


class InCaller:
    """A tool whose plain code runs in the thread that made the call; ``plain`` brings it there."""

    def __init__(self, tool: Tool, plain: Plain) -> None:
        self.tool = tool
        self.plain = plain


class _Reading:
    """One iterator that is being run out. ``wanted`` is taken away when nobody waits for it any more."""

    __slots__ = ("wanted",)

    def __init__(self) -> None:
        self.wanted = True

    def call(self, execute: Tool, args: dict[str, Any]) -> Any:
        """What a plain tool returns; an iterator is run out in the same thread."""
        result = execute(args)
        return self.read(result) if _is_iterator(result) else result

    def read(self, items: Iterator[Any]) -> list[Any]:
        """Everything that it yields."""
        found: list[Any] = []
        for item in items:
            found.append(item)
            _check_count(found)
            if not self.wanted:
                _close(items)
                break
        return found


async def run(execute: Tool, args: dict[str, Any], *, plain: Plain, grace: float) -> End:
    """How a tool ends. ``grace``: seconds that it has to end once the call is cancelled.

    Raises only what is meant for the program: a signal handler's exception, and the cancellation of this task.
    """
    if threads.is_async(execute):
        if bounded.suspends(execute):
            return await bounded.run(_run_async(execute, args, plain), None, grace=grace)
        # Nothing can interrupt it: whatever it raises is its own.
        end = await bounded.contain(_call(execute, args))
    else:
        end = await _run_plain(plain, _Reading.call, execute, args)
    if end.error is not None or not _is_lazy(end.value):
        return end
    return await bounded.run(_finish(end.value, plain), None, grace=grace)


async def _call(execute: Tool, args: dict[str, Any]) -> Any:
    return await execute(args)


async def _run_async(execute: Tool, args: dict[str, Any], plain: Plain) -> Any:
    result = await execute(args)
    return await _finish(result, plain) if _is_lazy(result) else result


async def _run_plain(plain: Plain, work: Callable[..., Any], *args: Any) -> End:
    reading = _Reading()
    try:
        return await plain(work, reading, *args)
    except BaseException:
        reading.wanted = False
        raise


async def _finish(value: Any, plain: Plain) -> Any:
    """A lazy result, and whatever is lazy in what comes of it, brought to its end."""
    while True:
        if type(value) in _CONTAINERS:
            return await _finish_items(value, plain) if _is_lazy(value) else value
        if isinstance(value, concurrent.futures.Future):
            value = await asyncio.wrap_future(value)
        elif inspect.isawaitable(value):
            value = await _await(value)
        elif _is_async_iterable(value):
            value = await _read_async(value)
        elif _is_iterator(value):
            end = await _run_plain(plain, _Reading.read, value)
            if end.error is not None:
                raise end.error
            value = end.value
        elif isinstance(value, _FUNCTIONS):
            raise TypeError("the tool has not run: it returned a function and did not call it")
        else:
            return value


async def _await(value: Awaitable[Any]) -> Any:
    return await value


async def _finish_items(value: Any, plain: Plain) -> Any:
    if type(value) is dict:
        return {key: await _finish_item(item, plain) for key, item in value.items()}
    found = [await _finish_item(item, plain) for item in value]
    return tuple(found) if type(value) is tuple else found


async def _finish_item(item: Any, plain: Plain) -> Any:
    return await _finish(item, plain) if not isinstance(item, _FUNCTIONS) and _is_lazy(item) else item


async def _read_async(items: AsyncIterable[Any]) -> list[Any]:
    found: list[Any] = []
    try:
        async for item in items:
            found.append(item)
            _check_count(found)
    finally:
        if inspect.isasyncgen(items):
            await items.aclose()
    return found


def _check_count(found: list[Any]) -> None:
    if len(found) > _MOST:
        raise OutcomeUnknown(f"the tool's result has no end: it yielded more than {_MOST:,} items")


def _close(items: Iterator[Any]) -> None:
    if inspect.isgenerator(items):
        items.close()


def _is_lazy(value: Any) -> bool:
    kind = type(value)
    if kind in _SCALARS:
        return False
    if kind in _CONTAINERS:
        return _holds_lazy(value, set())
    return (
        inspect.isawaitable(value)
        or _is_iterator(value)
        or _is_async_iterable(value)
        or isinstance(value, (concurrent.futures.Future, *_FUNCTIONS))
    )


def _holds_lazy(value: Any, seen: set[int]) -> bool:
    """Whether something in lists, tuples and dicts waits to be run. Each is looked into once, however it is shared."""
    waiting = [value]
    while waiting:
        container = waiting.pop()
        if id(container) in seen:
            continue
        seen.add(id(container))
        for item in container.values() if type(container) is dict else container:
            kind = type(item)
            if kind in _SCALARS:
                continue
            if kind in _CONTAINERS:
                waiting.append(item)
            elif not isinstance(item, _FUNCTIONS) and _is_lazy(item):
                return True
    return False


def _is_iterator(value: Any) -> bool:
    """A generator, ``map``, a cursor. A file is not: it is what it is before anybody reads it."""
    return isinstance(value, Iterator) and not isinstance(value, io.IOBase)


def _is_async_iterable(value: Any) -> bool:
    return isinstance(value, AsyncIterable) and not hasattr(type(value), "__iter__")
