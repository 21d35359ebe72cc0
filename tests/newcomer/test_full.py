"""From a fresh clone to the running portal in earnest: interrupted at every stage, then without network.

As the account that runs the tests and, where that is root, as one with no rights and no home. Part of `make soak`.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.portal_process import free_port
from tests.newcomer import clone
from tests.newcomer.clone import ALONE, Make
from tests.soak import counts

pytestmark = pytest.mark.soak
NOBODY = 65534
ROOT_RUNS = os.geteuid() == 0
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
# Stages of the first `make run`, by the file that says it is under way, and what ends them there.
STAGES = {
    ".venv/pyvenv.cfg": signal.SIGINT,
    ".venv/bin/pip": signal.SIGKILL,
    ".venv/bin/django-admin": signal.SIGINT,
    "var/hookgate.sqlite3": signal.SIGKILL,
    "var/sample.json": signal.SIGKILL,
    "var/portal.log": signal.SIGINT,
}


def interpreter(prefix: tuple[str, ...]) -> str:
    """A Python that the account may run and that can make virtual environments. Fails when there is none."""
    works = "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"
    base = os.path.realpath(sys.executable)
    for path in (base, "/usr/bin/python3", "/usr/local/bin/python3"):
        if (
            shutil.which(path)
            # By way of `env`: what gives root's rights up still has them when it starts a program.
            and subprocess.run([*prefix, "env", path, "-c", works], capture_output=True).returncode == 0
        ):
            return path
    raise AssertionError("no Python 3.11 with ensurepip for this account")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder whose parents everybody may enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="hookgate newcomer ") as name:
        yield Path(name)


@pytest.mark.parametrize("account", ["own", "nobody"] if ROOT_RUNS else ["own"])
def test_from_a_fresh_clone_to_the_running_portal(place: Path, account: str) -> None:
    prefix = AS_NOBODY if account == "nobody" else ()
    environment = {
        "PYTHON": interpreter(prefix),
        "HOME": "/nonexistent" if account == "nobody" else os.environ.get("HOME"),
    }
    tree = clone.copy(place)
    if account == "nobody":
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(place)], check=True)
    port = f"PORT={free_port()}"
    faults = {"tracebacks of ours": 0, "did not end": 0}
    for stage, number in STAGES.items():
        with Make(tree, "run", port, prefix=prefix, **environment) as make:
            make.reach(tree / stage, 900)
            make.signal(number)
            faults["did not end"] += make.end(30) == 0
            faults["tracebacks of ours"] += "examples/" in make.text
    with Make(tree, "run", port, prefix=prefix, **environment) as make:
        make.reach(clone.RUNNING, 900)
        make.signal(signal.SIGINT)
        make.end(30)
    away = (*ALONE, *prefix)
    with Make(tree, "run", port, prefix=away, **environment) as make:
        make.reach(clone.RUNNING)
        faults["set up again"] = "Setting up" in make.text
        make.signal(signal.SIGTERM)
        make.end(30)
    with Make(tree, "demo", prefix=away, **environment) as make:
        faults["demo failed"] = make.end() != 0
        faults["set up again"] += "Setting up" in make.text
    if account == "nobody":
        os.chown(tree / "var" / "secret_key", 0, 0)  # as if root had been here first
        with Make(tree, "run", port, prefix=prefix, **environment) as make:
            faults["ran on another's secret"] = (
                make.end() == 0 or "Permission denied. Hand it" not in make.text
            )
    counts.record(f"newcomer/account {account}", database="embedded", rounds=len(STAGES) + 3, faults=faults)
