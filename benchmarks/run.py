"""`make bench`: every benchmark beside its baseline; prints a table and writes ``bench-results.json``."""

import sys
import time
from pathlib import Path

from benchmarks import (
    before,
    building,
    calling,
    chains,
    confirming,
    delivering,
    imports,
    matching,
    measure,
    polling,
    recording,
    registry,
    stage,
    tapping,
    waiting,
)

RESULTS = Path(__file__).resolve().parent.parent / "bench-results.json"


def main() -> int:
    """Measure, print and save. A missed goal is told, not an error: figures depend on what else the machine does."""
    started = time.monotonic()
    figures = [*chains.run(), *matching.run(), *calling.run(), *imports.run()]
    with stage.portal() as portal:
        figures += [*registry.run(portal), *building.run(portal), *tapping.run(portal)]
        pollers = portal.inside("benchmarks.backstage", "populate", str(polling.AGENTS))
        figures += [*polling.run(portal, pollers), *confirming.run(portal, [slug for slug, _ in pollers])]
        figures += recording.run(portal)
    with stage.portal() as portal:
        # Of its own: connections that others have opened stay for a while, and it leaves its agent's places taken.
        figures += waiting.run(portal)
    with stage.portal(embedded=True) as portal:
        figures += [*registry.run(portal, "registry_304_on_sqlite"), *tapping.run(portal, "_on_sqlite")]
    figures += delivering.run()
    figures += before.run()
    print(measure.table(figures))
    measure.save(figures, RESULTS)
    missed = sum(1 for figure in figures if not figure.met)
    print(
        f"{len(figures)} figures, {missed} goals missed, {time.monotonic() - started:.0f} s; see {RESULTS.name}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
