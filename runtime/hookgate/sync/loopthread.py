"""An event loop in a thread of its own, for those who have none."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import cache
from typing import Any, Final, TypeVar

T = TypeVar("T")

# Modules that a loop in a thread, and whoever waits for it, can't have replaced.
_LOOPS_NEED: Final = ("_thread", "threading", "queue", "_queue", "socket", "select", "selectors", "ssl")

# Seconds for what is under way to end by itself, and to take note that it is ended.
_GRACE: Final = 0.2
_END_BOUND: Final = 2.0


_open: Final[weakref.WeakSet[LoopThread]] = weakref.WeakSet()


class LoopGone(RuntimeError):
    """Nothing runs on this loop any more, or not for this process."""


class LoopThread:
    """A loop that runs until `close`. One that is forgotten instead is stopped with a ResourceWarning.

    Its callers block: it refuses threads with a running loop of their own, which would stand still
    meanwhile, and the children of a fork, in which its thread does not exist.
    """

    def __init__(self) -> None:
        refuse_patched()
        refuse_in_a_loop()
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        # The thread must not hold this object: else nobody would ever notice that it was forgotten.
        self._thread = threading.Thread(target=_serve, args=(self.loop,), name="hookgate-loop", daemon=True)
        self._thread.start()
        self._forgotten = weakref.finalize(self, _forget, self.loop, self._thread, self._pid)
        _open.add(self)
        _watch_exit()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin to run on the loop. Raises RuntimeError in a thread with a loop of its own, LoopGone after `close`
        and after a fork."""
        try:
            refuse_in_a_loop()
            if os.getpid() != self._pid:
                raise LoopGone(
                    "this runtime was entered before the process was forked; enter one in each child, "
                    "such as in gunicorn's post_fork"
                )
            with self._lock:
                if self._closed:
                    raise LoopGone("the runtime was left")
                return asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:
            work.close()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the loop and wait here. An interrupt of this thread cancels the work. Raises as `submit`."""
        future = self.submit(work)
        try:
            return take(future)
        except BaseException:
            future.cancel()
            raise

    def run_last(self, work: Coroutine[Any, Any, Any]) -> None:
        """As `run`, for what leaves something: where the loop is gone, it was left already."""
        with contextlib.suppress(LoopGone):
            self.run(work)

    def forget(self) -> None:
        """Nobody will close it any more."""
        self._forgotten()

    def close(self) -> None:
        """End what is still under way, and the thread. In a child of a fork there is neither."""
        self._forgotten.detach()
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
        _stop(self.loop)
        self._thread.join()


def take(future: Future[T]) -> T:
    """Wait for the result. Raises what the work raised, LoopGone when the loop was closed before it ended."""
    try:
        return future.result()
    except CancelledError:
        raise LoopGone("the runtime was left while this was under way") from None


def refuse_patched() -> None:
    """Raise RuntimeError where gevent or eventlet has put its own in the place of what a loop's thread is made of: the
    thread would be a greenlet of this one, and each would wait for the other."""
    found = [
        name
        for name, patched in (("gevent", _has_gevent_patched), ("eventlet", _has_eventlet_patched))
        if patched()
    ]
    if found:
        raise RuntimeError(
            f"SyncRuntime needs real threads and sockets, and {found[0]} has replaced them in this process; run the "
            f"agent in a process without {found[0]}'s patches: gunicorn's gthread or sync workers, Celery's prefork or "
            "threads pool, or a process of its own"
        )


def _has_gevent_patched() -> bool:
    # Whoever patches has imported it.
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and any(map(monkey.is_module_patched, _LOOPS_NEED))


def _has_eventlet_patched() -> bool:
    patcher = sys.modules.get("eventlet.patcher")
    return patcher is not None and any(map(patcher.is_monkey_patched, ("thread", "socket", "select")))


def refuse_in_a_loop() -> None:
    """Raise RuntimeError in a thread that runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "SyncRuntime would block the event loop that runs in this thread; use Runtime with async with, "
        "or call it by asyncio.to_thread"
    )


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_end_all())
    finally:
        loop.close()


async def _end_all() -> None:
    # Whoever waits for one of these in another thread must not wait for ever.
    if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(tasks, timeout=_GRACE)
    if late := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in late:
            task.cancel()
        await asyncio.wait(late, timeout=_END_BOUND)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)


@cache
def _watch_exit() -> None:
    """Stop what is still open before Python ends its executors, without which it would fail noisily."""
    # Executors learn of the end in this way too. A Python that has it no more tells us a moment after them.
    register: Callable[[Callable[[], None]], Any] = getattr(threading, "_register_atexit", atexit.register)
    register(_forget_all)


def _forget_all() -> None:
    for one in list(_open):
        one.forget()


def _forget(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int) -> None:
    """At the last reference to a loop that was never closed, or at the end of the process."""
    if os.getpid() != pid:
        return
    warnings.warn("a SyncRuntime was never left; use it as with", ResourceWarning, stacklevel=2)
    _stop(loop)
    if thread is not threading.current_thread():
        thread.join(2 * _END_BOUND)
