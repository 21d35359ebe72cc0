"""User-defined handlers of type ``python``: functions named in the portal, found in this process."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

from hookgate import origin
from hookgate.context import HookContext
from hookgate.engine import callees, threads
from hookgate.hook import Hook
from hookgate.result import HookResult, describe_error
from hookgate.spec import Handler, HookSpec

# Apart from the tools' threads: a handler that hangs must not use those up.
_THREADS: Final = threads.AbandonableThreads(32, "hookgate-handler")


class HandlerUnusable(Exception):
    """A handler that this runtime may not or can't run; the registry can't be used."""


class PythonHandler(Hook):
    """Calls a function with the context. A sync one runs in a thread, so that it can be timed out: the
    chain goes on without the thread, which ends when the function does."""

    def __init__(self, spec: HookSpec, function: Callable[[HookContext], Any]) -> None:
        self.name = spec.name
        self._function = function

    async def execute(self, ctx: HookContext) -> HookResult:
        return await threads.call(self._function, ctx, executor=_THREADS)  # type: ignore[no-any-return]


def load(spec: HookSpec, handler: Handler, prefixes: Sequence[str]) -> PythonHandler:
    """Import the handler's target. ``prefixes`` are the packages that the runtime's owner allows: the target's module
    lies in one, and so does the code that is called. Raises HandlerUnusable."""
    module_name, _, attribute = handler.target.partition(":")
    if not module_name or not attribute:
        raise HandlerUnusable(f"{spec.name}: target {handler.target!r} is not package.module:callable")
    if not _is_allowed(module_name, prefixes):
        raise HandlerUnusable(
            f"{spec.name}: this runtime may not import {module_name!r}; its owner lists the allowed "
            "packages with Runtime(python_handlers=[…])"
        )
    if _is_internal(module_name):
        raise HandlerUnusable(f"{spec.name}: {module_name!r} is not a module to import handlers from")
    try:
        found = _find(importlib.import_module(module_name), attribute, prefixes)
        callees.check(found, lambda module: _is_allowed(module, prefixes))
    except callees.NotOwn as error:
        raise HandlerUnusable(f"{spec.name}: {handler.target!r} is not allowed: {error}") from None
    except BaseException as error:
        # Importing runs code, which may do anything.
        if origin.is_programs(error):
            raise
        raise HandlerUnusable(
            f"{spec.name}: can't import {handler.target!r}: {describe_error(error)}"
        ) from error
    return PythonHandler(spec, found)


def _find(module: ModuleType, attribute: str, prefixes: Sequence[str]) -> Any:
    """What a dotted name leads to, through modules of the allowed packages and what they define. Raises NotOwn."""
    found: Any = module
    for part in attribute.split("."):
        if _is_internal(part):
            raise callees.NotOwn(f"{part!r} is Python's own")
        if inspect.ismodule(found) and not _is_allowed(found.__name__, prefixes):
            raise callees.NotOwn(f"it leads through the module {found.__name__}")
        found = getattr(found, part)
    return found


def _is_internal(dotted: str) -> bool:
    return any(part.startswith("__") for part in dotted.split("."))


def _is_allowed(module: str, prefixes: Sequence[str]) -> bool:
    return any(_is_within(module, prefix) for prefix in prefixes)


def _is_within(module: str, prefix: str) -> bool:
    package = prefix.rstrip(".")
    return bool(package) and (module == package or module.startswith(package + "."))
