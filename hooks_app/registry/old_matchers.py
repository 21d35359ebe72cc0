"""Matchers that an earlier release took and this one doesn't: named when the database is migrated.

The engine is one of linear time now (contract, section 6). A published registry goes on with such a matcher, over the
characters that its release looked at, until it is built anew; a draft with one is faulty, as its page says.
"""

import sys
from collections.abc import Iterator
from typing import Any

from django.db import connections
from django.db.migrations.loader import MigrationLoader
from hookgate.matching import matching

from hooks_app.models import Declaration, RegistryHead


def find() -> Iterator[str]:
    """A line for each, first of the drafts, then of what is published: whose it is, and why it is refused."""
    drafts = Declaration.objects.filter(source="events", matcher__isnull=False).order_by("agent", "id")
    rows = drafts.values_list("agent__organization__slug", "agent__slug", "event", "group_index", "matcher")
    for organization, agent, event, group, matcher in rows.iterator():
        if matcher and (reason := _refusal(matcher)):
            yield f"{organization}/{agent}: hooks.events.{event}[{group}].matcher: {reason}"
    heads = RegistryHead.objects.filter(revision__isnull=False).order_by("agent")
    served = heads.values_list(
        "agent__organization__slug", "agent__slug", "revision__number", "revision__manifest"
    )
    for organization, agent, number, manifest in served.iterator():
        for hook in manifest["hooks"]:
            if hook["matcher"] and (reason := _refusal(hook["matcher"])):
                yield f"{organization}/{agent}: revision {number}, {hook['name']}: {reason}"


def _is_current(using: str) -> bool:
    """Whether every migration has been applied: a part of them leaves other tables than the models say."""
    loader = MigrationLoader(connections[using])
    return all(leaf in loader.applied_migrations for leaf in loader.graph.leaf_nodes())


def _refusal(matcher: str) -> str | None:
    try:
        matching.compile_matcher(matcher)
    except matching.MatchError as error:
        return error.message
    return None


def tell(using: str, stdout: Any = None, verbosity: int = 1, **_: Any) -> None:
    """After a migration that has come to its end: name them, and say what to do."""
    if not verbosity or not _is_current(using):
        return
    if lines := list(find()):
        print(
            "Matchers that this release doesn't take. What is published goes on with them until it is built anew;"
            " write them without look-around and back references, and publish:",
            *lines,
            sep="\n  ",
            file=stdout or sys.stdout,
        )
