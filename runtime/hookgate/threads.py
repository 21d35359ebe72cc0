"""Call what may be a plain function, a coroutine function, or something that returns an awaitable."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any


async def call(function: Callable[..., Any], *args: Any, executor: Executor | None = None) -> Any:
    """``function(*args)``; a plain function runs in a thread, so that it doesn't hold up the loop."""
    if is_async(function):
        return await function(*args)
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    result = await loop.run_in_executor(executor, context.run, _guard, function, args)
    return await result if inspect.isawaitable(result) else result


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _guard(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return function(*args)
    except StopIteration as error:
        # A future can't carry it: whoever awaits it would wait forever.
        raise RuntimeError("the function raised StopIteration") from error


async def call_inline(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` on the loop itself: for callbacks, which are short and belong to the loop."""
    result = function(*args)
    return await result if inspect.isawaitable(result) else result
