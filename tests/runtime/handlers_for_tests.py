"""Handlers that the tests' registries name."""

from __future__ import annotations

import functools
import operator
import os
import subprocess
import threading
import time
import types
from pathlib import Path
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


def fine(ctx: HookContext) -> HookResult:
    return HookResult()


def decorate(function: Any) -> Any:
    """As if it came from a package of decorators, which names what it is around."""
    code: Any = (lambda *args: function(*args)).__code__
    around = types.FunctionType(code, {"__name__": "decorators"}, "around", None, (types.CellType(function),))
    return functools.update_wrapper(around, function)


decorated = decorate(fine)
cached = functools.lru_cache(fine)
ours_partial = functools.partial(fine)
method_of_ours = Callable().__call__
# What an owner's module holds without having written it.
reexported = subprocess.run
from_c = os.abort
foreign_partial = functools.partial(functools.partial(subprocess.run), check=True)
foreign_method = Path("x").unlink
of_a_dict = seen.clear
foreign_object = operator.methodcaller("unlink")
foreign_wrapped = decorate(subprocess.run)
claimed = types.FunctionType(fine.__code__, {"__name__": "evil"}, "fine")
claimed.__module__ = __name__
MODULES = {"os": os}


class Inherits(subprocess.Popen[bytes]):
    """Calls code of its base class."""


class CallsForeign:
    __call__ = subprocess.run


an_heir = CallsForeign()


def __getattr__(name: str) -> Any:
    if name == "conjured":
        return subprocess.run
    raise AttributeError(name)
