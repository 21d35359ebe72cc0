"""What the model and the call log get to read about a call."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hookgate import canonical, redaction

if TYPE_CHECKING:
    from hookgate.call import ToolCall


def write(call: ToolCall) -> str:
    """The observation: the result as text, or why there is none. Hooks' additional context follows it."""
    if call.status in ("blocked", "cancelled"):
        text = f"Tool call {call.name} was blocked by {call.blocked_by}: {call.reason}"
    elif call.withheld:
        text = (
            f"Tool {call.name} has run, and must not be called again for this; "
            f"its result is withheld by {call.blocked_by}: {call.reason}"
        )
    elif call.status == "succeeded":
        text = as_text(call.result)
    else:
        text = f"Tool {call.name} failed: {call.error}"
    extra = call.merged.additional_context
    return f"{text}\n\n{extra}" if extra else text


def as_text(value: Any) -> str:
    """A result as the model reads it: text as it is, everything else as JSON where that is possible."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except Exception:  # noqa: BLE001  (a foreign __str__ may raise anything)
        return f"<{type(value).__name__}>"


def write_entry(call: ToolCall, *, redact: tuple[str, ...]) -> dict[str, Any]:
    """The call-log entry of contract section 4.3. ``redact`` are paths beside the tool's own."""
    session, manifest = call.session, call.manifest
    paths = (*(call.tool.redact if call.tool else ()), *redact)
    return {
        "id": call.id,
        "agent": manifest.agent.slug if manifest else session.agent,
        "session_id": session.id,
        "conversation_id": session.conversation_id,
        "tool_call_id": call.tool_call_id,
        "tool_name": call.name,
        "user": session.user_id,
        "surface": session.surface,
        "status": call.status,
        "blocked_by": call.blocked_by,
        "reason": call.reason,
        "error": call.error,
        "started_at": _write_time(call.started_at),
        "duration_ms": round(call.duration_ms, 3),
        "args": redaction.redact(call.args, paths, secret_keys=redaction.SECRET_KEYS),
        "args_digest": canonical.digest(call.args),
        "result_bytes": _measure(call.result),
        "confirmation_id": call.approval.id if call.approval else None,
        "registry_digest": manifest.digest if manifest else None,
        "trace": list(call.merged.trace),
        "side_effects": list(call.merged.side_effects),
    }


def _measure(result: Any) -> int:
    """The size of a result's text in bytes; 0 for no result."""
    if result is None:
        return 0
    if isinstance(result, bytes):
        return len(result)
    return len(as_text(result).encode("utf-8", "surrogatepass"))


def _write_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
