"""A whole portal for the benchmarks that need one: PostgreSQL, Redis, and the web process of production."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from examples.portal_process import ROOT, PortalProcess
from tests import services

FILE = Path(__file__).with_name("bench.yaml")
AGENT = "payer"


@dataclass(frozen=True)
class Stage:
    """Where the portal is, its process, its environment, a runtime key of its organization, Bob's token, and a folder
    for runtimes' call logs."""

    url: str
    key: str
    token: str
    pid: int
    environment: dict[str, str]
    spool: Path
    root: Path = ROOT

    def inside(self, module: str, *arguments: str) -> Any:
        """What ``python -m MODULE`` prints as JSON, in the portal's environment."""
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            check=True,
            timeout=300,
        )
        return json.loads(done.stdout)


class BenchPortal(PortalProcess):
    """A portal whose web process has the bare view beside it."""

    def command(self) -> tuple[str, ...]:
        """The arguments of the Python process that is the server."""
        return ("-m", "benchmarks.serving", str(self.port))


@contextmanager
def portal(*, embedded: bool = False, root: Path = ROOT) -> Iterator[Stage]:
    """A portal of production's kind, or on SQLite, in a folder of its own; it ends with the block. ``root`` is
    where the code is that serves, with the packages of this environment."""
    production = (
        {} if embedded else {"DATABASE_URL": services.new_database(), "REDIS_URL": services.redis_url()}
    )
    # One key waits for a thousand requests at once.
    production |= {"HOOKGATE_STREAMS_PER_CALLER": "5000", "PYTHONPATH": str(root / "runtime")}
    with (
        TemporaryDirectory(prefix="hookgate-bench-") as folder,
        BenchPortal(Path(folder), environment=production, root=root) as running,
    ):
        running.manage("migrate", "--verbosity", "0")
        running.manage("apply", str(FILE))
        key = running.manage("issue_key", "--org", "bench").strip()
        token = running.manage("issue_token", "--user", "bob", "--scopes", "read,decide").strip()
        running.start()
        yield Stage(
            running.url,
            key,
            token,
            running.processes[0].pid,
            running.environment,
            running.folder / "spool",
            root,
        )
