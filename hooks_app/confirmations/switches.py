"""The switches that stop an agent, as they stand now."""

from hooks_app import halting
from hooks_app.models import Agent
from portal.lib.problems import Problem


def refusal(agent: Agent, *, writes: bool) -> Problem | None:
    """Why no call of ``agent`` (that ``writes``) may be asked for or run now, or ``None``: 409 ``agent_disabled``,
    ``halted``, ``read_only``. ``agent`` must have been read in this request, with its organization."""
    if not agent.enabled:
        return Problem(409, "agent_disabled", f"The agent {agent.slug} is switched off.")
    state = halting.state(agent, agent.organization)
    if state["halted"]:
        reason = f": {state['reason']}" if state["reason"] else "."
        return Problem(409, "halted", f"The agent {agent.slug} is halted{reason}")
    if state["read_only"] and writes:
        return Problem(409, "read_only", "The organization is read-only, and this tool writes.")
    return None
