"""Sets the switches that hold at once, halted and read-only. One that the file doesn't mention stays as it is."""

from typing import Any

from hooks_app import halting
from hooks_app.config.changes import Run
from hooks_app.models import Agent
from portal.models import Organization

REASON = "Halted by the config file"


def set_halted(
    run: Run, organization: Organization, agent: Agent | None, wanted: bool | None
) -> dict[str, Any]:
    """Halt or resume ``agent``, or the organization, if the file says so and it isn't so."""
    before = halting.is_halted(agent or organization)
    if wanted is None or wanted == before:
        return {}
    if wanted:
        halting.halt(organization=organization, agent=agent, reason=REASON, actor=run.actor)
    else:
        halting.resume(organization=organization, agent=agent, actor=run.actor)
    return {"halted": [before, wanted]}


def set_read_only(run: Run, organization: Organization, wanted: bool | None) -> dict[str, Any]:
    """Switch read-only mode, if the file says so and it isn't so."""
    before = organization.read_only
    if wanted is None or wanted == before:
        return {}
    halting.set_read_only(organization=organization, read_only=wanted, actor=run.actor)
    return {"read_only": [before, wanted]}
