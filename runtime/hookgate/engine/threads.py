"""Call what may be a plain function, a coroutine function, or something that returns an awaitable."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from hookgate.engine.bounded import End


class AbandonableThreads(Executor):
    """At most ``size`` threads, which nobody waits for at the process's end.

    Python can't end a thread. One that never comes back keeps its place here for good, but keeps neither
    the process from ending nor name look-ups from their threads, as it would in the loop's own executor.
    With all places taken, work waits in line until whoever wants it gives up, and then never runs.
    """

    def __init__(self, size: int, name: str) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._left = size
        self._name = name

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """``fn(*args, **kwargs)`` in one of the threads. Raises RuntimeError when none can be started."""
        future: Future[Any] = Future()
        if not self._idle.acquire(blocking=False):
            self._start_one()
        self._work.put((future, lambda: fn(*args, **kwargs)))
        return future

    def _start_one(self) -> None:
        with self._lock:
            if self._left == 0:
                return
            name = f"{self._name}-{next(self._numbers)}"
            threading.Thread(target=self._run, name=name, daemon=True).start()
            self._left -= 1

    def _run(self) -> None:
        while True:
            future, work = self._work.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001  (whoever waits for it gets it)
                    future.set_exception(error)
            # An idle thread must not keep the last context alive.
            del future, work
            self._idle.release()


async def call(function: Callable[..., Any], *args: Any, executor: Executor | None = None) -> Any:
    """``function(*args)``; a plain function runs in a thread, so that it doesn't hold up the loop."""
    if is_async(function):
        return await function(*args)
    end = await call_plain(function, *args, executor=executor)
    if end.error is not None:
        raise end.error
    return await end.value if inspect.isawaitable(end.value) else end.value


async def call_plain(function: Callable[..., Any], *args: Any, executor: Executor | None = None) -> End:
    """How a plain function ends that runs in a thread. Raises nothing but this task's cancellation: whatever is raised
    in a thread is the function's own, and some of it (StopIteration, a cancellation) no future could carry."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(executor, context.run, _guard, function, args)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _guard(function: Callable[..., Any], args: tuple[Any, ...]) -> End:
    try:
        return End(function(*args))
    except BaseException as error:  # noqa: BLE001  (no signal handler runs in a thread: all of it is the function's)
        return End(None, error)
