"""The quickstart's file and program do what its page says."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from examples.portal_process import PortalProcess
from tests import services
from tests.docs.tables import DOCS
from tests.machinery.live import until

SECONDS = 90.0


def block(language: str) -> str:
    """The page's one block in a language."""
    page = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.fixture
def portal(tmp_path: Path) -> Iterator[PortalProcess]:
    """An empty portal that serves."""
    with PortalProcess(tmp_path, environment={"SHOP_PASSWORD": "a-long-word-of-hugos"}) as running:
        services.migrate(running)
        running.start()
        yield running


def test_the_page_holds(portal: PortalProcess) -> None:
    (portal.folder / "shop.yaml").write_text(block("yaml"))
    (portal.folder / "bookkeeper.py").write_text(block("python"))
    assert "created agent shop/bookkeeper" in portal.manage("apply", str(portal.folder / "shop.yaml"))
    assert portal.manage("apply", str(portal.folder / "shop.yaml")).endswith("0 changes\n")
    key = portal.manage("issue_key", "--agent", "shop/bookkeeper").strip()
    token = portal.manage("issue_token", "--user", "hugo", "--scopes", "read,decide").strip()
    api = httpx.Client(
        base_url=f"{portal.url}/api/v1", headers={"Authorization": f"Bearer {token}"}, trust_env=False
    )
    with subprocess.Popen(
        [sys.executable, str(portal.folder / "bookkeeper.py"), "bookkeeper", "bank__transfer"],
        env={**portal.environment, "HOOKGATE_URL": portal.url, "HOOKGATE_KEY": key},
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        (waiting,) = until(
            lambda: api.get("/confirmations?status=pending").json()["results"],
            seconds=SECONDS,
            what="the request",
        )
        assert (waiting["tool_args"], waiting["excerpt"]) == (None, '{"amount":60000}')
        answer = api.post(f"/confirmations/{waiting['id']}/respond", json={"decision": "approve"})
        assert answer.status_code == 200
        printed = program.communicate(timeout=SECONDS)[0].splitlines()
    assert program.returncode == 0
    assert (printed[0], printed[-1]) == ("sent 20", "sent 60000")
    assert f"{portal.url}/inbox/{waiting['id']}/" in printed[1]
