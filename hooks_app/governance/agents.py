"""What follows from a change of an agent, whoever makes it: the admin or a config file."""

from hooks_app.models import Agent
from portal import wakeups


def changed(agent: Agent) -> None:
    """The agent was switched on or off, or its draft or owner is another: after the commit its runtimes look whether
    what they hold still holds. Call it in the transaction of the change."""
    wakeups.publish_on_commit(f"agent:{agent.pk}")
