"""The hooks that bound something: result_truncate and connector_rate_limit."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from hookgate.context import HookContext, read_result
from hookgate.events import HookEvent
from hookgate.graphemes import find_boundary
from hookgate.hook import Hook
from hookgate.result import HookResult
from hookgate.result_text import as_text

if TYPE_CHECKING:
    from hookgate.catalogue.services import HookServices
    from hookgate.spec import HookSpec


class ConnectorRateLimit(Hook):
    """Caps the calls to one connector by one user; the portal counts, across all runtimes."""

    points = (HookEvent.PRE_TOOL_USE,)

    def __init__(self, spec: HookSpec, services: HookServices) -> None:
        self.name = spec.name
        self._hook_id = spec.id
        self._services = services

    def should_trigger(self, ctx: HookContext) -> bool:
        return ctx.tool is not None and ctx.tool.connector is not None

    async def execute(self, ctx: HookContext) -> HookResult:
        assert ctx.tool is not None
        assert ctx.tool.connector is not None
        verdict = await self._services.acquire_limit(
            hook_id=self._hook_id, connector=ctx.tool.connector, call_id=ctx.metadata["call_id"]
        )
        if verdict.allowed:
            return HookResult()
        wait = math.ceil(verdict.retry_after_seconds)
        return HookResult(
            allow=False,
            error=f"at most {verdict.limit} calls to {ctx.tool.connector} for now; try again in {wait} s",
        )


class ResultTruncate(Hook):
    """Shortens what the model gets to read. An error is left whole: it is what the model must see."""

    points = (HookEvent.POST_TOOL_USE,)

    def __init__(self, spec: HookSpec, services: HookServices) -> None:
        self.name = spec.name
        self._max_chars: int = spec.params["max_chars"]

    async def execute(self, ctx: HookContext) -> HookResult:
        result = read_result(ctx)
        shortened = shorten(result, self._max_chars)
        return HookResult() if shortened is result else HookResult(modified_result=shortened)


def shorten(result: Any, max_chars: int) -> Any:
    """``result`` itself when the model reads at most ``max_chars`` characters of it, else a shorter one.

    Text that isn't JSON is cut and marked; JSON stays valid JSON (``{"truncated": …}`` around what fits
    of it, as text), as a text where it was a text, as a value where it was a value. What is neither counts
    by the text that the model would read. Nothing is cut within a character that people see as one.
    """
    if isinstance(result, str):
        if len(result) <= max_chars:
            return result
        if _is_json(result):
            return json.dumps(_wrap(result, max_chars), ensure_ascii=False)
        return _cut_text(result, max_chars)
    text = as_text(result)
    return result if len(text) <= max_chars else _wrap(text, max_chars)


def _cut_text(text: str, max_chars: int) -> str:
    mark = f"\n[truncated: {{}} of {len(text)} characters left out]"
    keep = find_boundary(text, max(0, max_chars - len(mark) - len(str(len(text)))))
    return text[:keep] + mark.format(len(text) - keep)


def _wrap(text: str, max_chars: int) -> dict[str, Any]:
    """The start of a JSON text in an object which, written as JSON, has at most ``max_chars`` characters."""
    low, high = 0, max_chars
    while low < high:
        middle = (low + high + 1) // 2
        fits = len(json.dumps(_describe(text, middle), ensure_ascii=False)) <= max_chars
        low, high = (middle, high) if fits else (low, middle - 1)
    return _describe(text, find_boundary(text, low))


def _describe(text: str, keep: int) -> dict[str, Any]:
    return {"truncated": True, "characters": len(text), "left_out": len(text) - keep, "start": text[:keep]}


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
