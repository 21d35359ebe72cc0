"""Cards that one worker brings to 400 chats in a second, beside a bare client that makes the same calls.

Everything of the portal's is on: PostgreSQL, Redis, Celery, the rate buckets, leases, attempts, encryption. The worker
has ``CONCURRENCY`` processes, the bare client as many threads with one kept connection each.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import yaml

from benchmarks.chats import CHATS, ENCRYPT_KEY, SECRET, TOKEN, app_of, chat
from benchmarks.measure import Figure, alternate
from examples.portal_process import ROOT, PortalProcess
from tests import services

ROUNDS = 3
CONCURRENCY = 2
WORKER = (
    "-m",
    "celery",
    "-A",
    "portal",
    "worker",
    "--concurrency",
    str(CONCURRENCY),
    "--loglevel",
    "WARNING",
)
# Finds what the worker was told about too long before its turn came.
BEAT = ("-m", "celery", "-A", "portal", "beat", "--loglevel", "WARNING", "--schedule")


class Player:
    """A program that plays one round per line of its input and answers with a number."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: IO[str] = self._process.stdin
        self._output: IO[str] = self._process.stdout

    def line(self) -> str:
        """The next line of its output. Raises ``RuntimeError`` when it has ended."""
        line = self._output.readline().strip()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended early")
        return line

    def play(self) -> float:
        """One round."""
        self._input.write("\n")
        self._input.flush()
        return float(self.line())

    def stop(self) -> None:
        """Let it end."""
        self._input.close()
        self._process.wait(20)


@contextmanager
def players(url: str, folder: Path) -> Iterator[tuple[Player, Player]]:
    """Ours and the bare one, on the chat at ``url``."""
    environment = {
        "DATABASE_URL": services.new_database(),
        "REDIS_URL": services.redis_url(),
        "HOOKGATE_CHANNEL_HOSTS": url.removeprefix("http://"),
        "HOOKGATE_LOG_FORMAT": "json",
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    file = folder / "chats.yaml"
    file.write_text(yaml.safe_dump(organization(f"{url}/feishu")))
    with PortalProcess(folder, environment=environment) as portal:
        portal.manage("migrate", "--verbosity", "0")
        portal.manage("apply", str(file))
        portal.spawn(*WORKER)
        portal.spawn(*BEAT, str(folder / "beat"))
        ours = Player("benchmarks.enqueuing", environment=portal.environment)
        bare = Player("benchmarks.sending", f"{url}/feishu", str(CONCURRENCY), environment=portal.environment)
        yield ours, bare
        ours.stop()
        bare.stop()


def organization(url: str) -> dict[str, object]:
    """The config file: one channel per chat."""
    channels = [
        {
            "slug": f"chat-{number}",
            "type": "feishu",
            "config": {
                "app_id": app_of(number),
                "app_secret": SECRET,
                "chat_id": chat(number),
                "encrypt_key": ENCRYPT_KEY,
                "verification_token": TOKEN,
                "base_url": url,
            },
        }
        for number in range(CHATS)
    ]
    return {
        "apiVersion": "hookgate/v1",
        "organizations": [{"slug": "bench", "name": "Bench", "channels": channels}],
    }


def run() -> list[Figure]:
    """Deliveries a second; medians of rounds in turns."""
    chats = Player("benchmarks.chats")
    url = chats.line()
    try:
        with (
            TemporaryDirectory(prefix="hookgate-bench-") as folder,
            players(url, Path(folder)) as (ours, bare),
        ):
            delivered, sent = alternate(ours.play, bare.play, rounds=ROUNDS)
    finally:
        chats.stop()
    return [
        Figure("deliveries", delivered, sent, "cards/s", "ratio ≥ 0.5", met=delivered >= 0.5 * sent),
    ]
