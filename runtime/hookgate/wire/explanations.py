"""What the model reads of the portal's answers: a sentence about what it can do, and nothing of the configuration.

Whoever runs the agent finds the details in the log, once.
"""

from __future__ import annotations

import re
from typing import Final

from hookgate.wire.portal import Refused, Unreachable

OUT_OF_REACH: Final = "the portal is out of reach; try again later"
_MEND: Final = "whoever runs this agent must mend that, and finds the details in its log"
_COUNT: Final = re.compile(r"\b(\d{1,9}) requests\b")
_CREATE: Final = {
    "halted": "the agent is halted",
    "read_only": "the organization is in read-only mode and this tool writes",
    "agent_disabled": "the agent is switched off",
    "tool_call_conflict": "another call of this conversation had its id, with other arguments, another tool or user; "
    "make it again with an id of its own",
    "unknown_registry": "the agent's rules have just changed; make the call again",
    "no_eligible_approver": f"nobody is there who may approve it; {_MEND}",
    "initiator_unknown": f"the portal does not know the user for whom the agent acts; {_MEND}",
    "registry_unbuildable": f"the agent's rules can't be used; {_MEND}",
    "too_large": "its arguments are too large for people to be asked about; call it with less",
    "scope_missing": f"this runtime's key may not ask people; {_MEND}",
    "unauthenticated": f"the portal does not know this runtime's key; {_MEND}",
    "not_found": f"the portal knows no such agent, or this runtime's key does not reach it; {_MEND}",
}
_REGISTRY: Final = {
    401: "the portal does not know this runtime's key",
    403: "this runtime's key may not read the agent's rules",
    422: "the agent's rules can't be used as they are at the portal",
}


def not_asked(error: Unreachable | Refused) -> str:
    """Why people could not be asked."""
    if isinstance(error, Unreachable):
        return f"needs approval, and {OUT_OF_REACH}"
    return f"needs approval, and can't be asked for: {_refused_request(error)}"


def _refused_request(error: Refused) -> str:
    if error.code == "too_many_pending":
        count = _COUNT.search(error.detail)
        some = f"{count[1]} requests" if count else "as many requests as may wait"
        words = f"{some} of this agent wait for people already; try again when some of them are decided"
    elif error.code == "args_not_canonical":
        words = f"its arguments are none that people can be asked about: {error.detail[:200]}"
    else:
        words = _CREATE.get(error.code, f"the portal refused the request; {_MEND}")
    return f"{words} ({error.code[:80]})"


def refused_registry(agent: str, error: Refused) -> str:
    """Why a session runs nothing any more."""
    words = _REGISTRY.get(error.status, "the portal refused the agent's rules")
    if error.status == 404:
        words = f"the portal has no agent {agent!r} that this runtime's key reaches"
    return f"{words} ({error.status} {error.code[:80]}); {_MEND}"


def remedy(agent: str, error: Refused) -> str:
    """For the log: what is at fault, by its name, and what mends it."""
    if error.status == 401:
        return (
            "the runtime key (HOOKGATE_KEY, or the file that HOOKGATE_KEY_FILE names) is mistyped, revoked, expired or "
            "another portal's; issue one with `manage.py issue_key`"
        )
    if error.status == 403:
        return "the runtime key lacks the scope; issue one that has it with `manage.py issue_key --scopes`"
    if error.status == 404:
        return (
            f"either the slug {agent!r} is mistyped, or the runtime key belongs to another agent or organization; "
            "agents and keys are listed in the portal"
        )
    return f"the page of the agent {agent!r} in the portal lists every reason, and so does `manage.py build_registry`"
