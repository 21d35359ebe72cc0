"""What the docs print runs as printed against the sample: programs, commands, files, and the frameworks' examples.

A page's commands run in one shell, in its order, in a folder that looks like the clone; its programs as files beside
them. People are asked, and Bob answers.
"""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples import sample
from examples.frameworks import story
from examples.portal_process import ROOT, PortalProcess
from tests import services
from tests.docs.blocks import Block, blocks
from tests.docs.tables import DOCS, FRAMEWORKS, framework, generated
from tests.machinery.live import until
from tests.soak import counts

SECONDS = 180.0
ANSWERS = {
    "oa__purchase_pay": {"decision": "approve"},
    "hr__employee_delete": {"decision": "reject", "reason": "still here"},
}


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PortalProcess]:
    """A portal with the sample organization; nothing answers where its chat should be."""
    environment = {"HOOKGATE_CHANNEL_HOSTS": "127.0.0.1:9", **sample.placeholders("http://127.0.0.1:9")}
    with PortalProcess(tmp_path_factory.mktemp("frameworks"), environment=environment) as running:
        services.migrate(running)
        running.manage("apply", str(sample.FILE), *sample.ENV)
        running.start()
        yield running


@pytest.fixture(scope="module")
def bob(portal: PortalProcess) -> Iterator[httpx.Client]:
    """The approver, at the API."""
    with signed_in(portal, "bob") as client:
        yield client


@pytest.fixture(scope="module")
def dana(portal: PortalProcess) -> Iterator[httpx.Client]:
    """The auditor, at the API."""
    with signed_in(portal, "dana") as client:
        yield client


@pytest.fixture(scope="module")
def key(portal: PortalProcess) -> str:
    """The agent's key."""
    return portal.manage("issue_key", "--agent", "acme/procurement").strip()


@pytest.fixture(scope="module")
def organization_key(portal: PortalProcess) -> str:
    """A key of all agents, for those that delegate."""
    return portal.manage("issue_key", "--org", "acme").strip()


def signed_in(portal: PortalProcess, user: str) -> httpx.Client:
    """A client of the API with a token of ``user``'s."""
    token = portal.manage("issue_token", "--user", user, "--scopes", "read,decide").strip()
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{portal.url}/api/v1", headers=headers, trust_env=False)


def decide_next(bob: httpx.Client) -> str:
    """Answer the one request that waits; returns its conversation."""
    (waiting,) = until(
        lambda: bob.get("/confirmations?status=pending").json()["results"], seconds=SECONDS, what="a request"
    )
    decided = bob.post(f"/confirmations/{waiting['id']}/respond", json=ANSWERS[waiting["tool_name"]])
    assert decided.status_code == 200, decided.text
    return str(waiting["conversation_id"])


@pytest.mark.parametrize("name", FRAMEWORKS if counts.SOAK else FRAMEWORKS[:1])
def test_the_example_is_governed(
    portal: PortalProcess, key: str, bob: httpx.Client, dana: httpx.Client, tmp_path: Path, name: str
) -> None:
    environment = {
        **portal.environment,
        "HOOKGATE_URL": portal.url,
        "HOOKGATE_KEY": key,
        "HOOKGATE_SPOOL_DIR": str(tmp_path),
    }
    with subprocess.Popen(
        [sys.executable, "-m", f"examples.frameworks.{name}"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        conversations = {decide_next(bob), decide_next(bob)}
        printed, complaints = program.communicate(timeout=SECONDS)
    assert program.returncode == 0, complaints
    lines = printed.splitlines()
    assert lines[:2] == ["paid 8000 for PO-1041", "paid 60000 for PO-1042"]
    assert "hr__employee_delete" in lines[2]
    assert "still here" in lines[2]
    assert lines[3].startswith("Tool hr__employee_find failed")
    assert lines[-1] == story.ANSWER
    (conversation,) = conversations
    assert outcomes(dana, conversation) == ["failed", "blocked", "succeeded", "succeeded"]


def outcomes(dana: httpx.Client, conversation: str) -> list[str]:
    """What the call log says of a conversation, newest first."""
    found = dana.get("/calls?agent=procurement").json()["results"]
    return [entry["status"] for entry in found if entry["conversation_id"] == conversation]


# The programs of the pages, how often each asks people, and what it prints.
PRINTED: dict[str, list[tuple[int, str]]] = {
    "README.md": [(1, "paid 60000\n")],
    "runtime/README.md": [(1, "paid 60000\n")],
    "docs/runtime.md": [
        (1, "awaiting_confirmation\nconfirmation_resolved\npaid 60000\n"),
        (0, "answered It is paid.\nsucceeded\n"),
        (0, "no_private_purchases Name the purchase order.\n"),
        (0, "3\n"),
    ],
}
PROGRAMS = [
    (block, asked, printed)
    for page, expected in PRINTED.items()
    for block, (asked, printed) in zip(blocks(page, "python"), expected, strict=True)
]


@pytest.fixture
def clone(portal: PortalProcess, tmp_path: Path) -> Path:
    """A folder in which the pages' commands find what they find in a clone."""
    (tmp_path / "manage.py").symlink_to(ROOT / "manage.py")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return tmp_path


@contextmanager
def answering(bob: httpx.Client, times: int) -> Iterator[None]:
    """Bob answers the next requests, so many of them."""
    people = threading.Thread(target=lambda: [decide_next(bob) for _ in range(times)])
    people.start()
    yield
    people.join(SECONDS)
    assert not people.is_alive()


@pytest.mark.parametrize(
    ("block", "asked", "printed"), PROGRAMS, ids=[block.name for block, _, _ in PROGRAMS]
)
def test_a_program_runs_as_printed(
    portal: PortalProcess,
    organization_key: str,
    bob: httpx.Client,
    clone: Path,
    block: Block,
    asked: int,
    printed: str,
) -> None:
    (clone / "program.py").write_text(block.text)
    with answering(bob, asked):
        done = run(
            portal,
            clone,
            ".venv/bin/python program.py",
            HOOKGATE_URL=portal.url,
            HOOKGATE_KEY=organization_key,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def run(portal: PortalProcess, folder: Path, script: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """Run a script of a page in a shell, at the portal of this test instead of port 8000."""
    return subprocess.run(
        ["sh", "-euc", script.replace("http://127.0.0.1:8000", portal.url)],
        cwd=folder,
        env={**portal.environment, "HOOKGATE_SPOOL_DIR": str(folder / "spool"), **more},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_the_apis_commands_run_as_printed(portal: PortalProcess, clone: Path) -> None:
    """Each command of the API's page in one shell; between two blocks a mark, to tell their output apart."""
    commands = blocks("docs/api/README.md", "sh")
    done = run(portal, clone, "\necho; echo @@@\n".join(block.text for block in commands))
    assert done.returncode == 0, done.stderr
    said = [text.strip() for text in done.stdout.split("@@@")]
    shown = [json.loads(block.text) for block in blocks("docs/api/README.md", "json")]
    assert json.loads(said[1]) == shown[0]
    assert said[2] == "304"
    listed, first = answers(said[3])
    assert (listed["results"][0]["number"], first["number"]) == (1, 1)
    assert said[4] == "204"
    waiting, listed, decided = answers(said[6])
    assert (waiting["status"], listed["results"][0]["id"], decided["status"]) == (
        "pending",
        waiting["id"],
        "approved",
    )
    consumed, ended, late = answers(said[7])
    assert (consumed["outcome"], ended["outcome"], late["code"]) == (None, "succeeded", "already_decided")
    assert json.loads(said[8]) == shown[1]
    listed, call = answers(said[9])
    assert listed["results"] == [call]
    assert json.loads(said[10]) == shown[2]
    assert answers(said[11])[0]["recipients"] == 1


@counts.LONG  # each command by itself is tested in tests/machinery, tests/contract and tests/operations
def test_the_operators_commands_run_as_printed(portal: PortalProcess, clone: Path) -> None:
    (clone / "office.yaml").write_text(blocks("docs/configuration.md", "yaml")[0].text)
    script = [block.text for block in blocks("docs/configuration.md", "sh")]
    script.append(blocks("docs/operations.md", "sh")[0].text)
    done = run(portal, clone, "\necho @@@\n".join(script), OFFICE_ERIN_PASSWORD="a-password-of-hers")
    assert done.returncode == 0, done.stderr
    commands, again = done.stdout.split("@@@\n")
    assert [line for line in commands.splitlines() if line.endswith(" changes")] == [
        "7 changes",
        "7 changes",
        "0 changes",
    ]
    assert "created agent office/procurement" in commands
    assert again.endswith("0 changes\n")
    assert "slug: office" in (clone / "exported.yaml").read_text()


def test_the_secrets_of_the_containers_are_made_as_printed(portal: PortalProcess, clone: Path) -> None:
    script, _, _ = blocks("docs/operations.md", "sh")[1].text.partition("HOOKGATE_HOST=")
    done = run(portal, clone, script)
    assert done.returncode == 0, done.stderr
    secrets = clone / "secrets"
    assert secrets.stat().st_mode & 0o777 == 0o700
    settings = {
        f"{variable}_FILE": str(secrets / file)
        for variable, file in (
            ("HOOKGATE_SECRET_KEY", "secret_key"),
            ("HOOKGATE_ENCRYPTION_KEYS", "encryption_keys"),
            ("HOOKGATE_METRICS_TOKEN", "metrics_token"),
        )
    }
    checked = run(portal, clone, ".venv/bin/python manage.py check --deploy", **settings)
    assert checked.returncode == 0, checked.stderr
    assert not {"hookgate.W001", "hookgate.W002", "hookgate.W003"} & set(
        re.findall(r"hookgate\.W\d+", checked.stderr)
    )


def answers(text: str) -> list[dict[str, Any]]:
    """The JSON answers that stand one behind the other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        at = re.compile(r"\s*").match(text, at).end()  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_page_shows_what_runs(name: str) -> None:
    page = (DOCS / "frameworks.md").read_text(encoding="utf-8")
    assert generated(page, name) == framework(name), "run python -m tests.docs.tables"
