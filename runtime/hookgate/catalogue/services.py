"""What built-in hooks need from the session that runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hookgate.context import HookContext
from hookgate.result import HookResult


@dataclass(frozen=True, slots=True)
class LimitVerdict:
    """The portal's answer to one acquire. ``retry_after_seconds`` is 0 when allowed."""

    allowed: bool
    limit: int
    remaining: int
    retry_after_seconds: float


class HookServices(Protocol):
    """A session, as its built-in hooks see it. Methods that call the portal raise when it can't answer."""

    @property
    def read_only(self) -> bool:
        """Whether the organization is in read-only mode, as of the registry in use."""

    def placeholders(self) -> Mapping[str, str]:
        """``date``, ``organization``, ``agent`` and ``user`` for texts."""

    def check_call_log(self) -> str | None:
        """Why the call log can't take the entry of one more call; None when it can."""

    def set_call_log(self, *, max_queued: int, redact: tuple[str, ...], results: bool) -> None:
        """Apply the parameters of `audit_log`."""

    def record_call(self, context: HookContext) -> None:
        """Put the entry of the call that just ended into the call log."""

    async def request_approval(self, context: HookContext) -> HookResult:
        """Ask people, wait, and say what they said; edited arguments come as `modified_args`."""

    async def acquire_limit(self, *, hook_id: str, connector: str, call_id: str) -> LimitVerdict:
        """Count one call against the declaration's limit."""

    async def send_notice(self, *, channel: str, text: str, patience: float | None) -> bool:
        """Queue a plain notice to a channel; False when the portal hasn't taken it within ``patience``
        seconds (None waits for its answer), and it goes on beside the call."""


def fill(text: str, values: Mapping[str, Any]) -> str:
    """Replace ``{name}`` of ``values`` in a text, and no other braces: texts come from people."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text
