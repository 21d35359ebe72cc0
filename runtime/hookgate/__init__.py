"""Hookgate's runtime: an agent's hooks, enforced outside the LLM loop."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookgate.context import HookContext
    from hookgate.engine.hook_registry import HookRegistry
    from hookgate.engine.signatures import by_name
    from hookgate.events import HookEvent
    from hookgate.hook import Hook, PostToolUseHook, PreToolUseHook, SessionStartHook
    from hookgate.result import HookResult, Outcome, OutcomeUnknown, ToolBlocked
    from hookgate.runtime import Runtime
    from hookgate.session.delegation import DelegationRefused
    from hookgate.session.session import Delegation, Session
    from hookgate.sync.sync import SyncRuntime
    from hookgate.wire.portal import Refused, Unreachable

__version__ = "0.1.0"

__all__ = [
    "Delegation",
    "DelegationRefused",
    "Hook",
    "HookContext",
    "HookEvent",
    "HookRegistry",
    "HookResult",
    "Outcome",
    "OutcomeUnknown",
    "PostToolUseHook",
    "PreToolUseHook",
    "Refused",
    "Runtime",
    "Session",
    "SessionStartHook",
    "SyncRuntime",
    "ToolBlocked",
    "Unreachable",
    "by_name",
]

_HOMES = {
    "Delegation": "session.session",
    "DelegationRefused": "session.delegation",
    "Hook": "hook",
    "HookContext": "context",
    "HookEvent": "events",
    "HookRegistry": "engine.hook_registry",
    "HookResult": "result",
    "Outcome": "result",
    "OutcomeUnknown": "result",
    "PostToolUseHook": "hook",
    "PreToolUseHook": "hook",
    "Refused": "wire.portal",
    "Runtime": "runtime",
    "Session": "session.session",
    "SessionStartHook": "hook",
    "SyncRuntime": "sync.sync",
    "ToolBlocked": "result",
    "Unreachable": "wire.portal",
    "by_name": "engine.signatures",
}


def __getattr__(name: str) -> Any:
    # Lazy, so that the portal can import the pure modules without the client's.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
