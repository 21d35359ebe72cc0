"""A whole portal in a folder of its own: its environment, its commands and its server process.

`make demo` and the end-to-end tests use it; it speaks to the portal as an operator does, by commands and HTTP.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parent.parent
# A server that ends is noticed at once; this is for a slow machine, where the imports alone take long.
START_SECONDS = 180.0
STOP_SECONDS = 15.0


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class CommandFailed(Exception):
    """A management command ended with an exit code other than 0; the text is what it printed on stderr."""


class PortalProcess:
    """One portal. ``folder`` holds its database (unless ``DATABASE_URL`` is given), secrets and log."""

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        environment: dict[str, str] | None = None,
        companions: tuple[tuple[str, ...], ...] = (),
        root: Path = ROOT,
    ) -> None:
        self.folder = folder
        # Where the code is that runs.
        self.root = root
        # Arguments of the Python processes that start and stop with the server: Celery worker and beat.
        self.companions = companions
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "portal.log"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HOOKGATE_") and k != "PORT"}
        self.environment = {
            **inherited,
            "DATABASE_URL": "",
            "REDIS_URL": "",
            "HOOKGATE_VAR_DIR": str(folder),
            "HOOKGATE_BASE_URL": self.url,
            "PYTHONUNBUFFERED": "1",
            **(environment or {}),
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        # Bytes: where the log of the present start begins; what is before it explains nothing.
        self._log_start = 0

    def manage(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a management command and return what it printed on stdout. Raises :class:`CommandFailed`."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=self.root,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            raise CommandFailed(f"manage.py {arguments[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def start(self) -> None:
        """Start the server and wait until it answers. Raises ``TimeoutError`` with the end of its log."""
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        server = self.spawn(*self.command())
        for companion in self.companions:
            self.spawn(*companion)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and server.poll() is None:
            if self.answers():
                return
            time.sleep(0.05)
        raise TimeoutError(f"the portal does not answer; its log ends with\n{self.log_tail()}")

    def command(self) -> tuple[str, ...]:
        """The arguments of the Python process that is the server."""
        return ("manage.py", "serve", "--host", "127.0.0.1", "--port", str(self.port))

    def spawn(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a Python process in the portal's environment (a Celery worker, say); :meth:`stop` ends it too."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments], cwd=self.root, env=self.environment, stdout=log, stderr=log
            )
        self.processes.append(process)
        return process

    def answers(self) -> bool:
        """Does ``/healthz`` answer 200?"""
        try:
            return httpx.get(f"{self.url}/healthz", timeout=2, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self, *, kill: bool = False) -> None:
        """End every process: SIGTERM and patience, or SIGKILL."""
        for process in self.processes:
            process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of the log since the last start."""
        if not self.log.exists():
            return ""
        text = self.log.read_bytes()[self._log_start :].decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def __enter__(self) -> "PortalProcess":
        return self

    def __exit__(self, *_exc: Any) -> None:
        self.stop()
