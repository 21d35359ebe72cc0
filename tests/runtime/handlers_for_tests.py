"""Handlers that the tests' registries name."""

from __future__ import annotations

import threading
import time
from typing import Any

from hookgate import HookContext, HookResult

seen: list[tuple[str, Any]] = []


async def cap(ctx: HookContext) -> HookResult:
    seen.append(("cap", ctx.tool_args))
    return HookResult(modified_args={**ctx.tool_args, "amount": min(ctx.tool_args["amount"], 100)})


def redact(ctx: HookContext) -> HookResult:
    seen.append(("redact", ctx.tool_result))
    return HookResult(modified_result="[hidden]")


def deny(ctx: HookContext) -> HookResult:
    return HookResult(allow=False, error=f"not at {ctx.event}")


def nothing(ctx: HookContext) -> None:
    return None


def sleepy(ctx: HookContext) -> HookResult:
    time.sleep(0.3)
    return HookResult()


def broken(ctx: HookContext) -> HookResult:
    raise RuntimeError("boom")


NOT_CALLABLE = 3


def stuck(ctx: HookContext) -> HookResult:
    threading.Event().wait()
    return HookResult()


class Group:
    @staticmethod
    async def allow(ctx: HookContext) -> HookResult:
        return HookResult()


class Callable:
    async def __call__(self, ctx: HookContext) -> HookResult:
        return HookResult(allow=False, error="an object says no")


an_object = Callable()


def note(ctx: HookContext) -> HookResult:
    seen.append((ctx.event, ctx))
    return HookResult()
