"""The hot path beside itself as it was at ``COMMIT``, in turns, each with a server of its own on the same machine.

The old code runs with the packages of today's environment, from a worktree in a temporary folder: what is compared is
the portal's own work. Without the history (a copy without ``.git``) there is nothing to compare with, and no figure.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks import confirming, stage
from benchmarks.measure import Figure
from benchmarks.stage import AGENT, Stage
from examples.portal_process import ROOT

COMMIT = "7a8ab37"
TURNS = 3
# Ours by theirs, at most.
GOALS = {"create": 0.33, "decide": 0.4, "consume": 0.5}
GOAL_ON_SQLITE = 0.25
# Ours by theirs, at least: requests per second of CLIENTS at once.
THROUGHPUT = 3.0
CLIENTS = 50


def run() -> list[Figure]:
    """Milliseconds of each call, requests per second, tap to resume."""
    with ExitStack() as stack:
        try:
            then = stack.enter_context(_worktree())
        except (OSError, subprocess.CalledProcessError):
            print(f"no history: {COMMIT} can't be compared with")
            return []
        figures = _on_postgres(then)
        return [*figures, *_on_sqlite(then)]


@contextmanager
def _worktree() -> Iterator[Path]:
    with TemporaryDirectory(prefix="hookgate-before-") as folder:
        path = Path(folder) / COMMIT
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", str(path), COMMIT], check=True, capture_output=True)
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], check=True, capture_output=True)


def _on_postgres(then: Path) -> list[Figure]:
    with stage.portal() as now, stage.portal(root=then) as before:
        ours, theirs = _alternate(now, before)
        figures = [_figure(f"{call}_before", ours, theirs, call, goal) for call, goal in GOALS.items()]
        taps = [(_tap(now), _tap(before)) for _ in range(TURNS)]
        tap = median(one[0] for one in taps), median(one[1] for one in taps)
        figures.append(Figure("tap_to_resume_before", *tap, "ms", "not slower", tap[0] <= tap[1] * 1.05))
        agents = {one.url: _agents(one) for one in (now, before)}
        rates = [(_rate(now, agents[now.url]), _rate(before, agents[before.url])) for _ in range(TURNS)]
        rate = median(one[0] for one in rates), median(one[1] for one in rates)
        told = f"at least {THROUGHPUT:g} times"
        figures.append(
            Figure(f"create_by_{CLIENTS}_per_second", *rate, "1/s", told, rate[0] >= THROUGHPUT * rate[1])
        )
    return figures


def _on_sqlite(then: Path) -> list[Figure]:
    with stage.portal(embedded=True) as now, stage.portal(embedded=True, root=then) as before:
        ours, theirs = _alternate(now, before)
    return [_figure("create_before_on_sqlite", ours, theirs, "create", GOAL_ON_SQLITE)]


Times = dict[str, list[float]]


def _alternate(now: Stage, before: Stage) -> tuple[Times, Times]:
    """Times of every call, from turns; the first of each warms up."""
    found: tuple[Times, Times] = ({}, {})
    for turn in range(TURNS + 1):
        for place, one in enumerate((now, before)):
            for call, times in asyncio.run(confirming.measure(one, [AGENT], confirming.ROUNDS)).items():
                if turn:
                    found[place].setdefault(call, []).extend(times)
    return found


def _figure(name: str, ours: Times, theirs: Times, call: str, goal: float) -> Figure:
    values = median(ours[call]), median(theirs[call])
    return Figure(name, *values, "ms", f"at most {goal:g}", values[0] <= goal * values[1])


# Each with the runtime of its own release: a later one asks an older portal for nobody's approval.
_TAP = """
import json, sys
from pathlib import Path
from benchmarks import tapping
from benchmarks.stage import Stage
url, key, token, spool = sys.argv[1:]
print(json.dumps(tapping.run(Stage(url, key, token, 0, {}, Path(spool)))[0].ours))
"""


def _tap(one: Stage) -> float:
    arguments = [sys.executable, "-c", _TAP, one.url, one.key, one.token, str(one.spool)]
    done = subprocess.run(
        arguments, cwd=one.root, env=one.environment, stdout=subprocess.PIPE, check=True, timeout=300
    )
    return float(done.stdout)


def _agents(one: Stage) -> list[str]:
    """An agent for each client, so that nobody waits for another's lock."""
    return [slug for slug, _ in one.inside("benchmarks.backstage", "populate", str(CLIENTS))]


def _rate(one: Stage, agents: list[str]) -> float:
    """Calls of all kinds per second while ``CLIENTS`` ask, decide and consume at once."""
    began = time.perf_counter()
    times = asyncio.run(confirming.measure(one, agents, confirming.TOGETHER))
    return sum(map(len, times.values())) / (time.perf_counter() - began)
