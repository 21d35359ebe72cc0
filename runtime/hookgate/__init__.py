"""Hookgate's runtime: an agent's hooks, enforced outside the LLM loop."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookgate.context import HookContext
    from hookgate.events import HookEvent
    from hookgate.hook import Hook, PostToolUseHook, PreToolUseHook, SessionStartHook
    from hookgate.registry import HookRegistry
    from hookgate.result import HookResult, Outcome, OutcomeUnknown, ToolBlocked
    from hookgate.runtime import Runtime
    from hookgate.signatures import by_name
    from hookgate.sync import SyncRuntime

__version__ = "0.1.0"

__all__ = [
    "Hook",
    "HookContext",
    "HookEvent",
    "HookRegistry",
    "HookResult",
    "Outcome",
    "OutcomeUnknown",
    "PostToolUseHook",
    "PreToolUseHook",
    "Runtime",
    "SessionStartHook",
    "SyncRuntime",
    "ToolBlocked",
    "by_name",
]

_HOMES = {
    "Hook": "hook",
    "HookContext": "context",
    "HookEvent": "events",
    "HookRegistry": "registry",
    "HookResult": "result",
    "Outcome": "result",
    "OutcomeUnknown": "result",
    "PostToolUseHook": "hook",
    "PreToolUseHook": "hook",
    "Runtime": "runtime",
    "SessionStartHook": "hook",
    "SyncRuntime": "sync",
    "ToolBlocked": "result",
    "by_name": "signatures",
}


def __getattr__(name: str) -> Any:
    # Lazy, so that the portal can import the pure modules without the client's.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
