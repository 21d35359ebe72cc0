"""Await a hook for a bounded time, at no cost when it doesn't suspend."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


class HookTimedOut(Exception):
    """A hook used up its time."""


class _Resumed:
    """The rest of a coroutine whose first step has yielded ``pending``."""

    __slots__ = ("_coroutine", "_pending")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], pending: Any) -> None:
        self._coroutine = coroutine
        self._pending = pending

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, pending = self._coroutine, self._pending
        while True:
            try:
                received = yield pending
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001  (all of it is the coroutine's, as with `yield from`)
                failure: BaseException | None = error
            else:
                failure = None
            try:
                pending = coroutine.send(received) if failure is None else coroutine.throw(failure)
            except StopIteration as end:
                return end.value


async def finish(coroutine: Coroutine[Any, Any, Any], pending: Any, seconds: float | None) -> Any:
    """The value of a coroutine whose first step has yielded ``pending``.

    Raises HookTimedOut after ``seconds``; None is without a bound. The first step is the caller's, without
    a timer: most hooks end in it, and a timer could not interrupt it anyway.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            value = await _Resumed(coroutine, pending)
    except TimeoutError:
        if limit.expired():
            raise HookTimedOut(f"no answer within {seconds} s") from None
        raise
    if limit.expired():
        # It swallowed the cancellation and answered late: a late answer is none.
        raise HookTimedOut(f"no answer within {seconds} s")
    return value
