"""Two releases side by side on one database: the one of before, out of the repository's history, and this one."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
# The last commit that spoke version 2 of the contract.
BEFORE = "7a8ab37"
PASSWORDS = {"ACME_ALICE_PASSWORD": "correct horse 1", "ACME_BOB_PASSWORD": "correct horse 2"}


def unpack(folder: Path) -> Path:
    """The release of before as files in ``folder``."""
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{BEFORE}^{{commit}}"], cwd=ROOT, capture_output=True, check=False
    )
    assert known.returncode == 0, (
        f"this clone's history does not hold {BEFORE}, the release to upgrade from; fetch it: git fetch --unshallow"
    )
    folder.mkdir()
    archive = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    shutil.rmtree(folder / "tests")
    return folder


@dataclass(frozen=True)
class Release:
    """One release's code on the database of ``state``."""

    code: Path
    state: Path
    port: int

    @property
    def url(self) -> str:
        """Where its portal answers."""
        return f"http://127.0.0.1:{self.port}"

    def environment(self, **more: str) -> dict[str, str]:
        """What its processes are started with."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith("HOOKGATE_")}
        return {
            **ours,
            **PASSWORDS,
            "DATABASE_URL": f"sqlite:///{self.state}/portal.sqlite3",
            "REDIS_URL": "",
            "HOOKGATE_VAR_DIR": str(self.state),
            "HOOKGATE_SPOOL_DIR": str(self.state / "spool"),
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            # Before what is installed, which is this release's.
            "PYTHONPATH": os.pathsep.join([str(self.code), str(self.code / "runtime")]),
            **more,
        }

    def manage(self, *words: str) -> str:
        """Run a command; what it prints."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=self.code, env=self.environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Its portal, on its port."""
        words = [sys.executable, "manage.py", "serve", "--port", str(self.port)]
        log = (self.state / "serve.log").open("ab")
        process = subprocess.Popen(words, cwd=self.code, env=self.environment(), stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 30
            while not _answers(self.url):
                assert process.poll() is None, (self.state / "serve.log").read_text()
                assert time.monotonic() < deadline, "the portal does not answer"
                time.sleep(0.05)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
            log.close()

    def run(self, program: str, key: str, *words: str) -> "subprocess.Popen[str]":
        """A program that uses its runtime, begun; its words are in ``sys.argv`` after url and key."""
        return subprocess.Popen(
            [sys.executable, "-c", program, self.url, key, *words],
            cwd=self.state, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=1).status_code == 200
    except httpx.HTTPError:
        return False


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Caller:
    """Somebody with a key or a token, over REST."""

    def __init__(self, url: str, bearer: str, **headers: str) -> None:
        self._client = httpx.Client(
            base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {bearer}", **headers}, timeout=10
        )

    def get(self, path: str) -> Any:
        """The body of a 200."""
        answer = self._client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any) -> Any:
        """The body of a 2xx."""
        answer = self._client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()
