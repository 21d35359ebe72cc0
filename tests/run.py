"""Run the suite on SQLite, then on PostgreSQL with Redis: ``python -m tests.run [pytest arguments]``.

Each test runs once, but for those where the database itself is what may fail: locks, races, wake-ups, what is frozen
and served. Arguments of one's own (``make soak``) leave out nothing of the first run.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import services
from tests.soak import counts

# Tests whose outcome doesn't depend on the portal's own database: they start what they need, need none, or ask what is
# decided before any row is read.
ONCE = [
    "tests/access/test_table.py",
    "tests/access/test_twins.py",
    "tests/admin/test_access.py",
    "tests/admin/test_bad_input.py",
    "tests/admin/test_queries.py",
    "tests/admin/test_rows.py",
    "tests/admin/test_secrets.py",
    "tests/api/test_bad_input.py",
    "tests/conditions",
    "tests/config/test_broken.py",
    "tests/config/test_broken_files.py",
    "tests/config/test_every_field.py",
    "tests/machinery/test_closed.py",
    "tests/machinery/test_connections.py",
    "tests/machinery/test_contract_header.py",
    "tests/machinery/test_serve.py",
    "tests/test_house.py",
    "tests/runtime",
    "tests/sandbox",
    "tests/contract",
    "tests/e2e",
    "tests/browser",
    "tests/soak",
    "tests/conformance",
    "tests/crashes",
    "tests/docs",
    "tests/operations",
    "tests/newcomer",
    "tests/outages",
    "tests/upgrade",
    "tests/visible",
]

# Tests of pages, forms, files, cards and words: the database under them is PostgreSQL, where it is stricter. What
# stands in ONCE as well runs on SQLite.
POSTGRESQL = [
    "tests/admin",
    "tests/api",
    "tests/channels",
    "tests/config",
    "tests/defects",
    "tests/governance",
    "tests/inbox",
    "tests/test_translations.py",
]


def left_to_postgresql() -> list[str]:
    """The files of POSTGRESQL that no entry of ONCE names, but for those that count statements: each database has its
    own."""
    files: list[Path] = []
    for path in map(Path, POSTGRESQL):
        files += sorted(path.glob("test_*.py")) if path.is_dir() else [path]
    return [str(file) for file in files if str(file) not in ONCE and not file.name.endswith("statements.py")]


def run(name: str, *, environment: dict[str, str], arguments: list[str]) -> int:
    """One pytest run in a process of its own, with its own folder for generated secrets. Returns its exit code."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hookgate-var-") as var:
        code = subprocess.call(
            [sys.executable, "-m", "pytest", *arguments],
            env={**os.environ, "HOOKGATE_VAR_DIR": var, **environment},
        )
    print(f"== {name}: exit {code} after {time.monotonic() - started:.0f} s", flush=True)
    return code


def main() -> int:
    """Run both passes, print what long tests counted, and return 0 only if both passed."""
    # Three for two processors: in many of the long tests people, platforms and deadlines are waited for. In the order
    # of collection, which tests/conftest.py decides: by itself xdist begins with the most tests.
    arguments = sys.argv[1:] or ["-q", "--numprocesses=3", "--dist=loadfile", "--no-loadscope-reorder"]
    spared = [] if sys.argv[1:] else left_to_postgresql()
    with tempfile.NamedTemporaryFile(prefix="hookgate-counts-") as file:
        told = {counts.VARIABLE: file.name}
        sqlite = run(
            "SQLite, embedded",
            environment={"DATABASE_URL": "", "REDIS_URL": "", **told},
            arguments=[*arguments, *(f"--ignore={path}" for path in spared)],
        )
        postgres = run(
            "PostgreSQL and Redis",
            environment={"DATABASE_URL": services.postgres_url(), "REDIS_URL": services.redis_url(), **told},
            arguments=[*arguments, *(f"--ignore={path}" for path in ONCE)],
        )
        if counts.SOAK:
            print(counts.table(Path(file.name)), flush=True)
    return sqlite or postgres


if __name__ == "__main__":
    sys.exit(main())
