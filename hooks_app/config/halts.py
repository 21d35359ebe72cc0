"""Sets the switches that hold at once, halted and read-only. One that the file doesn't mention stays as it is."""

from hooks_app import switches
from hooks_app.config.changes import Run
from hooks_app.governance import halting
from hooks_app.models import Agent
from portal.models import Organization

REASON = "Halted by the config file"


def set_halted(run: Run, organization: Organization, agent: Agent | None, wanted: bool | None) -> bool:
    """Halt or resume ``agent``, or the organization, if the file says so and it isn't so. Returns whether it did."""
    before = switches.is_halted(agent or organization)
    if wanted is None or wanted == before:
        return False
    if wanted:
        halting.halt(organization=organization, agent=agent, reason=REASON, actor=run.actor)
    else:
        halting.resume(organization=organization, agent=agent, actor=run.actor)
    return True


def set_read_only(run: Run, organization: Organization, wanted: bool | None) -> bool:
    """Switch read-only mode, if the file says so and it isn't so. Returns whether it did."""
    if wanted is None or wanted == organization.read_only:
        return False
    halting.set_read_only(organization=organization, read_only=wanted, actor=run.actor)
    return True
