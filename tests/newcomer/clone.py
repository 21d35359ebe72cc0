"""A clone of this repository somewhere else, and `make` in it, as somebody runs it who has just found it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from examples.portal_process import ROOT

LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "var", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "build", "*.sqlite3*"
)
# A blank and letters that ASCII doesn't have.
NAME = "hook gate 높은 문"
# The end of what `make run` prints when everything is up.
RUNNING = "Ctrl-C stops it."
# Ours are not a newcomer's; make's own would make this a make within a make.
OURS = ("HOOKGATE_", "MAKE", "MFLAGS", "PYTEST_", "COV_")
OURS_TOO = (
    "DATABASE_URL",
    "REDIS_URL",
    "PORT",
    "PYTHON",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "DJANGO_SETTINGS_MODULE",
)


def may(*command: str) -> bool:
    """Whether this account can run the command here; a container's root may be kept from ``unshare``."""
    return (
        shutil.which(command[0]) is not None and not subprocess.run(command, capture_output=True).returncode
    )


# Runs a command in a network of its own with nothing but itself in it; empty where that is not allowed.
ALONE: tuple[str, ...] = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
if not may(*ALONE, "true"):
    ALONE = ()


def copy(folder: Path) -> Path:
    """The tree as it stands, without what is made in it, in ``folder / NAME``."""
    return Path(shutil.copytree(ROOT, folder.resolve() / NAME, ignore=LEFT_OUT))


def lend_environment(clone: Path) -> None:
    """An installed ``.venv`` without installing: this interpreter's, under a stamp of the clone's own."""
    (clone / ".venv").mkdir()
    for entry in Path(sys.prefix).iterdir():
        if not entry.name.startswith("installed"):
            (clone / ".venv" / entry.name).symlink_to(entry)
    (clone / ".venv" / "installed").write_text(str(clone))


class Make:
    """One `make` in ``clone``, with a session of its own as a terminal gives it; killed at the end of the block."""

    def __init__(
        self, clone: Path, *arguments: str, prefix: tuple[str, ...] = (), **environment: str | None
    ) -> None:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(OURS) and name not in OURS_TOO
        }
        changed = {**inherited, **environment}
        self._log = (clone.parent / f"make-{time.monotonic_ns()}.log").open("w+b")
        self.process = subprocess.Popen(
            [*prefix, "make", *arguments],
            cwd=clone,
            env={name: value for name, value in changed.items() if value is not None},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            # A test run in the background ignores Ctrl-C, and so would everything below it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    @property
    def text(self) -> str:
        """What it has printed so far, both streams."""
        return Path(self._log.name).read_text(encoding="utf-8", errors="replace")

    def reach(self, mark: str | Path, seconds: float = 300) -> None:
        """Wait until it has printed the text, or until the file is there. Fails when it ends before, or is late."""
        deadline = time.monotonic() + seconds
        while not (mark.exists() if isinstance(mark, Path) else mark in self.text):
            assert self.process.poll() is None, self.text
            assert time.monotonic() < deadline, f"no {mark!r} within {seconds} s: {self.text}"
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to everything it started, as Ctrl-C does."""
        os.killpg(self.process.pid, number)

    def end(self, seconds: float = 300) -> int:
        """Wait until it ends by itself, and return its exit code."""
        return self.process.wait(seconds)

    def __enter__(self) -> "Make":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.process.wait()
        self._log.close()
