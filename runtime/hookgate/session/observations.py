"""What the model gets to read about a call."""

from __future__ import annotations

from hookgate import texts
from hookgate.journal.record import CallRecord
from hookgate.result_text import as_text


def write(call: CallRecord) -> str:
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
    elif call.status == "unknown":
        text = f"Nobody knows whether tool {call.name} has taken effect: {call.error}"
    else:
        text = f"Tool {call.name} failed: {call.error}"
    extra = call.merged.additional_context
    return texts.readable(f"{text}\n\n{extra}" if extra else text)
