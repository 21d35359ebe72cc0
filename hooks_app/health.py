"""Whether agents are served their registries, for ``/readyz``."""

from hooks_app.models import Agent, RegistryHead
from hooks_app.registry import heads
from portal.health import Health


def check_agents() -> Health:
    """How many registries of agents that are switched on can't be built. Names nobody: whoever asks isn't signed in.

    Those that are out of date are built first, twenty at each question, so that the next one finds them built.
    """
    heads.refresh(Agent.objects.filter(enabled=True))
    rows = RegistryHead.objects.filter(agent__enabled=True)
    count, broken = rows.count(), rows.exclude(errors=[]).count()
    if not broken:
        return Health(True, f"{count} registries, all built", vital=False)
    return Health(False, f"{broken} of {count} registries can't be built", vital=False)
