"""What a benchmark does inside the portal's own code and database: ``python -m benchmarks.backstage WHAT [NUMBER]``.

In the environment of the portal that is measured. Prints one line of JSON.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from django.db import connection  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from hooks_app import switches  # noqa: E402
from hooks_app.models import (  # noqa: E402
    Agent,
    Declaration,
    Publication,
    RegistryHead,
    RegistryRevision,
    RuntimeInstance,
)
from hooks_app.registry import heads  # noqa: E402
from portal.lib import clock  # noqa: E402

SURFACE = "chat"


def populate(number: int) -> list[tuple[str, str]]:
    """``number`` agents, each with a revision of its own: slugs and the ETags that their runtimes hold.

    Three in four have asked within this minute, as runtimes that ask four times a minute have.
    """
    model = Agent.objects.select_related("organization").get(slug="payer")
    served = heads.head(model)
    revision, publication = served.revision, served.publication
    assert revision is not None
    agents = [
        Agent(organization=model.organization, slug=f"poller-{n}", name=f"Poller {n}") for n in range(number)
    ]
    now = clock.now()
    copies = [Publication(agent=agent, content=publication.content, created_at=now) for agent in agents]
    same: dict[str, Any] = {"number": 1, "digest": revision.digest, "manifest": revision.manifest}
    revisions = [
        RegistryRevision(agent=copy.agent, publication=copy, created_at=now, **same) for copy in copies
    ]
    head_rows = [
        RegistryHead(
            agent=made.agent,
            publication=made.publication,
            built_publication=made.publication,
            revision=made,
            built_inputs_version=served.built_inputs_version,
        )
        for made in revisions
    ]
    for kind, rows in (
        (Agent, agents),
        (Publication, copies),
        (RegistryRevision, revisions),
        (RegistryHead, head_rows),
        (RuntimeInstance, _asked(agents)),
    ):
        kind._default_manager.bulk_create(rows)  # type: ignore[arg-type]
    state = switches.state(model, model.organization)
    return [(made.agent.slug, heads.tag(made.pk, SURFACE, state)) for made in revisions]


def _asked(agents: list[Agent]) -> list[RuntimeInstance]:
    minute = clock.now().replace(second=0, microsecond=0)
    return [
        RuntimeInstance(agent=agent, name="bench-1", surface=SURFACE, revision=1, last_seen_at=minute)
        for n, agent in enumerate(agents)
        if n % 4
    ]


def build(rounds: int) -> tuple[float, float, int]:
    """Milliseconds of a cold build with 20 declarations, and of its bare SELECTs; how many declarations."""
    agent = Agent.objects.select_related("organization").get(slug="declarer")
    number = Declaration.objects.filter(agent=agent).count()
    heads.inputs_changed(agent.organization)
    with CaptureQueriesContext(connection) as queries:
        heads.head(agent)
    selects = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]

    def cold() -> None:
        heads.head(agent)

    def bare() -> None:
        with connection.cursor() as cursor:
            for select in selects:
                cursor.execute(select)
                cursor.fetchall()

    ours, baseline = [], []
    for _ in range(rounds):
        heads.inputs_changed(agent.organization)
        ours.append(_milliseconds(cold))
        baseline.append(_milliseconds(bare))
    return statistics.median(ours), statistics.median(baseline), number


def _milliseconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    made = {"populate": populate, "build": build}[sys.argv[1]](int(sys.argv[2]))
    print(json.dumps(made))
