"""User-defined handlers of type ``python``: functions named in the portal, found in this process."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from hookgate import threads
from hookgate.context import HookContext
from hookgate.hook import Hook
from hookgate.manifest import Handler, HookSpec
from hookgate.result import HookResult

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
    """Import the handler's target. ``prefixes`` are the packages that the runtime's owner allows.
    Raises HandlerUnusable."""
    module_name, _, attribute = handler.target.partition(":")
    if not module_name or not attribute:
        raise HandlerUnusable(f"{spec.name}: target {handler.target!r} is not package.module:callable")
    if not any(_is_within(module_name, prefix) for prefix in prefixes):
        raise HandlerUnusable(
            f"{spec.name}: this runtime may not import {module_name!r}; its owner lists the allowed "
            "packages with Runtime(python_handlers=[…])"
        )
    try:
        function: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            function = getattr(function, part)
    except Exception as error:
        raise HandlerUnusable(f"{spec.name}: can't import {handler.target!r}: {error}") from error
    if not callable(function):
        raise HandlerUnusable(f"{spec.name}: {handler.target!r} is not callable")
    return PythonHandler(spec, function)


def _is_within(module: str, prefix: str) -> bool:
    package = prefix.rstrip(".")
    return bool(package) and (module == package or module.startswith(package + "."))
