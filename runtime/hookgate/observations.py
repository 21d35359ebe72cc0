"""What the model gets to read about a call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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
