"""Who runs an agent, as far as the portal can know: what runtimes hold, when they asked last, and what that comes to.

Nothing is called running that no runtime has been asking for lately. A runtime asks for its registry every
``revalidate_after_seconds`` while it has a session of the agent open, and the time is kept to the minute.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal
from uuid import UUID

from hooks_app import switches
from hooks_app.models import Agent, RegistryHead, RuntimeInstance
from portal.lib import clock

Runtime = Literal["live", "behind", "gone"]
State = Literal["off", "halted", "unpublished", "unbuildable", "unseen", "gone", "behind", "running"]
# The kept minute may have begun a minute ago, and one question may be lost.
_MINUTE = timedelta(seconds=60)
_LOST = 2


def runtime_state(row: RuntimeInstance, agent: Agent, newest: int | None) -> Runtime:
    """Whether a runtime is ``gone`` (it ought to have asked by now), ``behind`` the newest revision, or ``live``."""
    every = agent.revalidate_after_seconds or agent.organization.revalidate_after_seconds
    if clock.now() - row.last_seen_at > _MINUTE + timedelta(seconds=_LOST * every):
        return "gone"
    return "live" if row.revision == newest else "behind"


def states(agents: Sequence[Agent]) -> dict[UUID, State]:
    """The state of each agent, in two statements however many there are; reads ``agent.organization``.

    The first that holds: switched off, halted, never published, a registry that can't be built, never asked for by any
    runtime, all runtimes gone, all that are left behind the newest revision, running.
    """
    heads = {
        head.agent_id: head
        for head in RegistryHead.objects.filter(agent__in=agents)
        .select_related("revision")
        .defer("revision__manifest")
    }
    runtimes = defaultdict(list)
    for row in RuntimeInstance.objects.filter(agent__in=agents).defer("tools"):
        runtimes[row.agent_id].append(row)
    return {agent.pk: _state(agent, heads.get(agent.pk), runtimes[agent.pk]) for agent in agents}


def _state(agent: Agent, head: RegistryHead | None, runtimes: Sequence[RuntimeInstance]) -> State:
    if not agent.enabled:
        return "off"
    if switches.is_halted(agent) or switches.is_halted(agent.organization):
        return "halted"
    if head is None:
        return "unpublished"
    if head.errors:
        return "unbuildable"
    if not runtimes:
        return "unseen"
    newest = head.revision.number if head.revision else None
    found = {runtime_state(row, agent, newest) for row in runtimes}
    return "running" if "live" in found else "behind" if "behind" in found else "gone"
