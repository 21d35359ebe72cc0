"""What importing the runtime costs, beside importing the HTTP client that it uses anyway."""

import subprocess
import sys
from functools import partial

from benchmarks.measure import Figure, alternate

ROUNDS = 7
URL = "http://127.0.0.1:8000"
CLIENT = f"httpx.AsyncClient(base_url={URL!r}, verify=False)"


def run() -> list[Figure]:
    """``import hookgate`` alone, the class that connects, a verdict of a condition, and one made: the client comes only
    with that."""
    figures = []
    for name, statement, bare in (
        ("import_hookgate", "import hookgate", "import httpx"),
        ("import_runtime", "from hookgate import Runtime", "import httpx"),
        (
            "first_condition",
            "from hookgate.matching.matching import compile_condition; "
            "compile_condition('args.a > 1').evaluate({'args': {'a': 2}})",
            "import httpx",
        ),
        (
            "make_runtime",
            f"from hookgate import Runtime; Runtime({URL!r}, 'hg_x')",
            f"import httpx; {CLIENT}",
        ),
    ):
        ours, baseline = alternate(
            partial(milliseconds, statement), partial(milliseconds, bare), rounds=ROUNDS
        )
        if name == "make_runtime":
            figures.append(Figure(name, ours, baseline, "ms", "beside httpx and its client", met=True))
            continue
        figures.append(Figure(name, ours, baseline, "ms", "ratio ≤ 1.3 (httpx)", met=ours <= 1.3 * baseline))
    return figures


def milliseconds(statement: str) -> float:
    """How long a fresh interpreter takes for ``statement``."""
    code = f"import time\nstarted = time.perf_counter()\n{statement}\nprint(time.perf_counter() - started)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return float(done.stdout) * 1000
