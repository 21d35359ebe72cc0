"""One declared hook as its agent's registry describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hookgate.events import HookEvent
from hookgate.matching import matching

Mode = Literal["enforce", "observe"]
OnError = Literal["deny", "allow"]


@dataclass(frozen=True, slots=True)
class Handler:
    """A user-defined handler. ``target`` is ``package.module:callable``; ``timeout`` in seconds."""

    type: str
    target: str
    timeout: float | None


@dataclass(frozen=True, slots=True)
class HookSpec:
    """One declared hook, its filters compiled, its parameters validated."""

    id: str
    name: str
    points: tuple[HookEvent, ...]
    priority: int
    on_error: OnError
    mode: Mode
    timeout_seconds: float | None
    params: Mapping[str, Any]
    handler: Handler | None
    source: str
    tool_filter: str | None = None
    matcher: str | None = None
    when: str | None = None
    matches_tool: matching.Predicate | None = None
    matches_subject: matching.Predicate | None = None
    condition: matching.Condition | None = None
