"""What importing the runtime costs, beside importing the HTTP client that it uses anyway."""

import subprocess
import sys
from functools import partial

from benchmarks.measure import Figure, alternate

ROUNDS = 7


def run() -> list[Figure]:
    """``import hookgate`` alone, and what a program that connects imports."""
    figures = []
    for name, statement in (
        ("import_hookgate", "import hookgate"),
        ("import_runtime", "from hookgate import Runtime"),
    ):
        ours, baseline = alternate(
            partial(milliseconds, statement), partial(milliseconds, "import httpx"), rounds=ROUNDS
        )
        figures.append(Figure(name, ours, baseline, "ms", "ratio ≤ 1.3 (httpx)", met=ours <= 1.3 * baseline))
    return figures


def milliseconds(statement: str) -> float:
    """How long a fresh interpreter takes for ``statement``."""
    code = f"import time\nstarted = time.perf_counter()\n{statement}\nprint(time.perf_counter() - started)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return float(done.stdout) * 1000
