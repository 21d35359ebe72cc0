"""What the model and the call log get to read about a call."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from hookgate import canonical, redaction

if TYPE_CHECKING:
    from hookgate.call import ToolCall

# What the portal takes; a longer text must not cost the whole entry.
_SHORT: Final = 200
_LONG: Final = 10_000
_MANY: Final = 1000
_MAX_ARGS: Final = 256 * 1024


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
    written = canonical.canonicalize(call.args)
    fits = len(written) <= _MAX_ARGS
    return {
        "id": call.id,
        "agent": manifest.agent.slug if manifest else session.agent,
        "session_id": session.id,
        "conversation_id": session.conversation_id,
        "tool_call_id": canonical.clean(call.tool_call_id, _SHORT),
        "tool_name": canonical.clean(call.name, _SHORT) or "?",
        "user": session.initiator,
        "surface": session.surface,
        "status": call.status,
        "blocked_by": call.blocked_by and canonical.clean(call.blocked_by, 100),
        "reason": call.reason and canonical.clean(call.reason, _LONG),
        "error": call.error and canonical.clean(call.error, _LONG),
        "started_at": _write_time(call.started_at),
        "duration_ms": round(call.duration_ms, 3),
        "args": redaction.redact(call.args, paths, secret_keys=redaction.SECRET_KEYS)
        if fits
        else {"omitted": f"{len(written)} bytes"},
        "args_digest": canonical.digest_of(written),
        "result_bytes": _measure(call.result),
        "confirmation_id": call.approval.id if call.approval else None,
        "registry_digest": manifest.digest if manifest else None,
        "trace": [
            {**part, "hook": canonical.clean(part["hook"], 100), "ms": round(part["ms"], 3)}
            for part in call.merged.trace[:_MANY]
        ],
        "side_effects": [canonical.clean(text, _LONG) for text in call.merged.side_effects[:_MANY]],
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
