"""What a call is and has come to: what its log entry, its observation and its outcome are written from."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hookgate.context import ToolFacts
from hookgate.registry.manifest import Manifest
from hookgate.result import CallStatus, MergedResult


@dataclass(frozen=True, slots=True)
class CalledBy:
    """The session of a call, as records name it. ``initiator``: the user for whom the agent acts; ``path``: by which
    its delegate's calls are known; ``parent_request``: the approved request on whose behalf a delegate asks."""

    session_id: str
    agent: str
    surface: str
    conversation_id: str
    initiator: dict[str, Any] | None
    path: str = ""
    parent_request: str | None = None


class CallRecord:
    """One call. ``name`` is its action's, ``called_as`` the tool's that fronts it; ``key`` is what the portal knows it
    by, ``status`` what the call log would say now. Times in milliseconds."""

    def __init__(self, by: CalledBy, name: str, *, called_as: str, tool_call_id: str, key: str) -> None:
        self.id = str(uuid.uuid4())
        self.by = by
        self.name, self.called_as = name, called_as
        self.tool_call_id, self.key = tool_call_id, key
        self.args: dict[str, Any] = {}
        self.status: CallStatus = "cancelled"
        self.blocked_by: str | None = None
        self.reason: str | None = None
        self.error: str | None = None
        self.result: Any = None
        self.withheld = self.executing = self.recorded = False
        self.logged_args: tuple[dict[str, Any], tuple[str, ...], Any, str] | None = None
        self.merged = MergedResult()
        self.manifest: Manifest | None = None
        self.tool: ToolFacts | None = None
        self.started_at, self.duration_ms = datetime.now(UTC), 0.0
        self._started = time.perf_counter()

    @property
    def confirmation_id(self) -> str | None:
        """The request that people were asked with; None before, and where nobody was."""
        return None

    def measure(self) -> None:
        """Take the time that has gone by since the call began."""
        self.duration_ms = (time.perf_counter() - self._started) * 1000
