"""The examples for other frameworks run with the real libraries against the sample, and people are asked."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from examples import sample
from examples.frameworks import story
from examples.portal_process import ROOT, PortalProcess
from tests import services
from tests.docs.tables import DOCS, FRAMEWORKS, framework, generated
from tests.machinery.live import until

SECONDS = 60.0
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
        running.manage("apply", str(sample.FILE))
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


@pytest.mark.parametrize("name", FRAMEWORKS)
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


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_page_shows_what_runs(name: str) -> None:
    page = (DOCS / "frameworks.md").read_text(encoding="utf-8")
    assert generated(page, name) == framework(name), "run python -m tests.docs.tables"
