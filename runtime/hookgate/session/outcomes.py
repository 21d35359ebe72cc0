"""A call's outcome, as the program gets it."""

from __future__ import annotations

from hookgate import canonical
from hookgate.journal.record import CallRecord
from hookgate.result import Outcome
from hookgate.session import observations


def write(call: CallRecord) -> Outcome:
    """What a call that has ended came to."""
    ran = call.status not in ("blocked", "cancelled")
    return Outcome(
        tool_name=call.name,
        tool_call_id=call.tool_call_id,
        status=call.status,
        observation=observations.write(call),
        blocked=not ran,
        blocked_by=call.blocked_by,
        reason=call.reason,
        result=None if call.withheld else call.result,
        error=call.error,
        withheld=call.withheld,
        args=canonical.copy(call.args) if ran else None,
        confirmation_id=call.confirmation_id,
        trace=call.merged.trace,
        side_effects=call.merged.side_effects,
        system_message=call.merged.system_message,
        stop=call.merged.stop,
    )
