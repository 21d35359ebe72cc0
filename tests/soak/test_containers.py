"""What the image would run, run without a container: every command of ``compose.yaml``, as nobody, on a copy that can't
be written and that holds what ``.dockerignore`` lets through."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from examples.portal_process import free_port
from tests import services
from tests.machinery.live import until
from tests.operations import compose
from tests.soak import counts

NOBODY = 10001
# As root becomes nobody, who may still read (the interpreter can lie in root's own folder) but write nowhere.
DROP = (
    f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --inh-caps=-all,+dac_read_search"
    " --ambient-caps=-all,+dac_read_search --bounding-set=-all,+dac_read_search"
)
PATIENCE = 90.0  # seconds
pytestmark = [pytest.mark.soak, pytest.mark.skipif(not counts.SOAK, reason="part of make soak")]


class Container:
    """The copy, and the processes in it."""

    def __init__(self, folder: Path) -> None:
        self.code, self.run_folder = folder / "app", folder / "run"
        for path in compose.context():
            (self.code / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(compose.ROOT / path, self.code / path)
        self.run_folder.mkdir()
        self.port, self.metrics = free_port(), free_port()
        self.environment = self._environment(folder)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def _environment(self, folder: Path) -> dict[str, str]:
        """The worker's, which has everything, with this machine's places; secrets from files as there."""
        secrets = {
            "database_url": services.new_database(),
            "secret_key": "x" * 50,
            "encryption_keys": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
            "metrics_token": "scrape-me",
        }
        for name, value in secrets.items():
            (folder / name).write_text(value)
        replaced = {
            "REDIS_URL": services.redis_url(),
            "HOOKGATE_METRICS_LISTEN": f"127.0.0.1:{self.metrics}",
            "HOOKGATE_METRICS_DIR": str(self.run_folder / "metrics"),
        }
        wanted = {**compose.service("worker")["environment"], **replaced}
        return {
            **{name: value.replace("/run/secrets", str(folder)) for name, value in wanted.items()},
            "HOOKGATE_VAR_DIR": str(self.run_folder),
            "HOOKGATE_STATIC_DIR": str(self.code / "static"),
            "PYTHONPATH": str(self.code / "runtime"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": os.environ["PATH"],
        }

    def close(self) -> None:
        """From here on nobody may write where the code is."""
        for path in [self.code, *self.code.rglob("*")]:
            path.chmod(path.stat().st_mode & ~0o222)
        if os.geteuid() == 0:
            os.chown(self.run_folder, NOBODY, NOBODY)

    def _local(self, arguments: tuple[str, ...], *, nobody: bool = True) -> list[str]:
        local = [part.replace("0.0.0.0", "127.0.0.1").replace("8000", str(self.port)) for part in arguments]
        drop = DROP.split() if nobody and os.geteuid() == 0 else []
        return [*drop, sys.executable, *local]

    def run(self, *arguments: str, nobody: bool = True, **more: str) -> "subprocess.CompletedProcess[str]":
        """Run one command to its end."""
        return subprocess.run(
            self._local(arguments, nobody=nobody),
            cwd=self.code,
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def start(self, name: str) -> None:
        """Start a service."""
        with (self.run_folder.parent / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                self._local(compose.arguments(name)),
                cwd=self.code,
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def log(self, name: str) -> str:
        """What a service has said."""
        return (self.run_folder.parent / f"{name}.log").read_text()

    def stop(self) -> None:
        """End every process in order."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(60)


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """Built as the Dockerfile says, migrated and started as compose says."""
    folder = tmp_path_factory.mktemp("container")
    for parent in [folder, *folder.parents[:3]]:
        if str(parent) != "/tmp":
            parent.chmod(0o755)
    made = Container(folder)
    [build] = [rest for word, rest in compose.dockerfile() if word == "RUN" and "collectstatic" in rest]
    command = re.search(r"manage\.py (collectstatic [^&]*)", build)
    assert command
    done = made.run(
        "manage.py", *command[1].split(), nobody=False, HOOKGATE_METRICS_LISTEN="", HOOKGATE_METRICS_DIR=""
    )
    assert done.returncode == 0, done.stderr
    made.close()
    done = made.run(*compose.arguments("migrate"))
    assert done.returncode == 0, done.stderr
    for name in ("web", "worker", "beat"):
        made.start(name)
    yield made
    made.stop()


@pytest.mark.parametrize("name", ["web", "worker", "beat"])
def test_each_service_becomes_healthy_as_nobody(name: str, container: Container) -> None:
    until(
        lambda: container.run(*compose.health_check(name)).returncode == 0,
        seconds=PATIENCE,
        what=f"{name}'s health; its log ends with {container.log(name)[-2000:]}",
    )
    assert container.processes[name].poll() is None


def test_static_files_were_collected(container: Container) -> None:
    answer = httpx.get(f"http://127.0.0.1:{container.port}/static/portal/portal.css", trust_env=False)
    assert answer.status_code == 200
    assert (container.code / "static" / "unfold").is_dir()


@pytest.mark.parametrize("side", ["port", "metrics"], ids=["web", "worker"])
def test_metrics_are_shown_by_web_and_worker(side: str, container: Container) -> None:
    url = f"http://127.0.0.1:{getattr(container, side)}/metrics"
    headers = {"Authorization": "Bearer scrape-me"}
    until(
        lambda: 'hookgate_tasks_total{result="ok"' in httpx.get(url, headers=headers, trust_env=False).text,
        seconds=PATIENCE,
        what="a task that was counted",
    )


def test_the_code_stays_as_it_was_and_nothing_lacks(container: Container) -> None:
    sent = set(compose.context())
    left = {
        str(path.relative_to(container.code))
        for path in container.code.rglob("*")
        if path.is_file() and not path.is_relative_to(container.code / "static")
    }
    assert left == sent
    done = container.run("manage.py", "check", "--deploy", "--fail-level", "ERROR")
    assert done.returncode == 0, done.stderr
    assert "hookgate.W" not in done.stderr, done.stderr
