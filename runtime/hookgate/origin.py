"""Where an exception comes from: from the code that was called, or from the program around it.

Whatever a tool or a hook raises is its own failure, `SystemExit` included. What passes is meant for the program: a
signal handler's exception (Ctrl-C, an orderly shutdown, a task queue's time limit). A cancellation is told apart by
who was cancelled (`hookgate.engine.bounded`), never by its type.
"""

from __future__ import annotations

import functools
import itertools
import opcode
import signal
import threading
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any, Final

_RAISE: Final = opcode.opmap["RAISE_VARARGS"]
# Signals by which code bounds itself: who takes its handler down again has bounded its own work.
_TIMERS: Final = frozenset(
    getattr(signal, name) for name in ("SIGALRM", "SIGVTALRM", "SIGPROF") if hasattr(signal, name)
)
# How far a chain of exceptions is followed.
_FAR: Final = 50


def is_programs(error: BaseException) -> bool:
    """Whether an exception that came out of foreign code is meant for the program itself. To be asked in the thread
    in which that code ran. False for a cancellation."""
    if isinstance(error, BaseExceptionGroup) and any(is_programs(part) for part in error.exceptions):
        return True
    if isinstance(error, GeneratorExit):
        # Thrown in from outside when a coroutine is closed.
        return not _was_stated(error)
    if threading.current_thread() is not threading.main_thread():
        # Python runs signal handlers in the main thread alone.
        return False
    if isinstance(error, Exception):
        return _came_by_signal(error)
    # A tool that turns Ctrl-C into an exit, or a cancellation, still ends what Ctrl-C was meant to end.
    return any(_came_by_signal(link) for link in _links(error))


def _links(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(_FAR):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__


def _came_by_signal(error: BaseException) -> bool:
    if isinstance(error, KeyboardInterrupt) and not _was_stated(error):
        # Python's own handler of SIGINT has no frame.
        return True
    interrupted: FrameType | None = None
    codes: set[CodeType] | None = None
    step = error.__traceback__
    while step is not None:
        frame = step.tb_frame
        number = _read_signal(frame, interrupted)
        if number is not None or _may_handle(frame):
            codes = _handlers_in_force() if codes is None else codes
            if frame.f_code in codes or (number is not None and number not in _TIMERS):
                return True
        interrupted, step = frame, step.tb_next
    return False


def _may_handle(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_argcount >= 2 or bool(code.co_flags & 0x04)


def _read_signal(frame: FrameType, interrupted: FrameType | None) -> int | None:
    """The signal, if a frame was called as a handler is: with its number and the frame that it interrupted."""
    if interrupted is None or not _may_handle(frame):
        return None
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount
    given: list[Any] = [values.get(name) for name in code.co_varnames[:count]]
    if code.co_flags & 0x04:
        given += values.get(code.co_varnames[count + code.co_kwonlyargcount], ())
    for number, where in itertools.pairwise(given):
        if where is interrupted and isinstance(number, int) and number in signal.valid_signals():
            return number
    return None


def _handlers_in_force() -> set[CodeType]:
    found: set[CodeType] = set()
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        while isinstance(handler, functools.partial):
            handler = handler.func
        if not callable(handler):
            continue
        for function in (handler, getattr(handler, "__func__", None), type(handler).__call__):
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType):
                found.add(code)
    return found


def _was_stated(error: BaseException) -> bool:
    """Whether a ``raise`` statement made it, and not the interpreter."""
    last: TracebackType | None = error.__traceback__
    if last is None:
        return True
    while last.tb_next is not None:
        last = last.tb_next
    return last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE
