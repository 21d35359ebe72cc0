"""``compose.yaml``, ``Dockerfile`` and ``.dockerignore`` as facts, and as commands of this machine."""

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
HOST = "hookgate.example.com"
FILE = ROOT / "compose.yaml"
OURS = ("migrate", "web", "worker", "beat")


def interpolate(text: str) -> str:
    """``text`` with ``${NAME}``, ``${NAME:-default}`` and ``${NAME:?message}`` as compose fills them in."""
    return re.sub(
        r"\$\{(\w+)(?::[-?]([^}]*))?\}", lambda m: HOST if m[1] == "HOOKGATE_HOST" else m[2] or "", text
    )


def document() -> dict[str, Any]:
    """The whole file."""
    found: dict[str, Any] = yaml.safe_load(interpolate(FILE.read_text(encoding="utf-8")))
    return found


def service(name: str) -> dict[str, Any]:
    """One service."""
    found: dict[str, Any] = document()["services"][name]
    return found


def arguments(name: str) -> tuple[str, ...]:
    """A service's command, as arguments of a Python interpreter."""
    return as_arguments(service(name)["command"])


def as_arguments(command: list[str]) -> tuple[str, ...]:
    """``python …`` and ``celery …`` as arguments of a Python interpreter. Fails for anything else."""
    if command[0] == "celery":
        return ("-m", *command)
    assert command[0] == "python", command
    return tuple(command[1:])


def health_check(name: str) -> tuple[str, ...]:
    """A service's health check, likewise."""
    test = service(name)["healthcheck"]["test"]
    assert test[0] == "CMD"
    return as_arguments(test[1:])


def dockerfile() -> list[tuple[str, str]]:
    """The instructions in their order, as ``(WORD, rest)``; comments left out, lines joined."""
    lines = [
        line
        for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (word, " ".join(rest.split()))
        for word, _, rest in (x.partition(" ") for x in joined.splitlines() if x)
    ]


def context() -> list[str]:
    """The tracked files that would be sent to the builder, by ``.dockerignore``; the last rule that matches counts."""
    rules = [
        line
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for path in listed.stdout.splitlines() if not _ignored(path, rules)]


def _ignored(path: str, rules: list[str]) -> bool:
    ignored = False
    for rule in rules:
        pattern = rule.removeprefix("!").removeprefix("**/")
        parents = [str(parent) for parent in Path(path).parents if str(parent) != "."]
        names = [path, *parents]
        if rule.removeprefix("!").startswith("**/"):
            names = [part for name in names for part in (name, Path(name).name)]
        if pattern == "*" or any(fnmatch(name, pattern) for name in names):
            ignored = not rule.startswith("!")
    return ignored
