"""Tell the program what happens: what its callback does, or how long it takes, changes nothing."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, Final

from hookgate import origin
from hookgate.engine import bounded
from hookgate.result import describe_error

log = logging.getLogger("hookgate")

_SECONDS: Final = 30.0


async def tell(callback: Callable[[dict[str, Any]], Any], event: dict[str, Any]) -> None:
    """Call it on the loop, and wait for at most 30 s where it is async. What it raises is logged."""
    try:
        result = callback(event)
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            raise TypeError("on_event is a generator function, which does not run by being called")
    except BaseException as error:
        if origin.is_programs(error):
            raise
        log.exception("on_event failed at %s", event["type"])
        return
    if not inspect.isawaitable(result):
        return
    end = await bounded.run(_await(result), _SECONDS)
    if end.error is not None:
        log.error("on_event failed at %s: %s", event["type"], describe_error(end.error), exc_info=end.error)


async def _await(result: Any) -> Any:
    return await result
