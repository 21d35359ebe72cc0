"""A running portal with the sample organization, and everything that a request to it may name."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from examples import sample
from examples.portal_process import PortalProcess
from tests import services

SCOPES = "registry,confirmations,calls,limits,tools,notify,eval"
AGENT = "procurement"


@dataclass(frozen=True)
class Stage:
    """The portal, a bearer credential by kind of caller, and the rows that exist, as variables for the hooks."""

    portal: PortalProcess
    credentials: dict[str, str]
    rows: dict[str, str]

    def client(self, who: str) -> httpx.Client:
        """A client of the API with the credential of ``who``."""
        return _client(self.portal, self.credentials[who])


def _client(portal: PortalProcess, bearer: str) -> httpx.Client:
    return httpx.Client(
        base_url=f"{portal.url}/api/v1",
        headers={"Authorization": f"Bearer {bearer}"} if bearer else {},
        timeout=30,
        trust_env=False,
    )


def _rows(client: httpx.Client) -> dict[str, str]:
    """Names of rows that requests of every kind can meet."""
    manifest: dict[str, Any] = client.get(f"/agents/{AGENT}/registry").raise_for_status().json()
    made = client.post(
        "/confirmations",
        json={
            "agent": AGENT,
            "conversation_id": "c1",
            "tool_call_id": str(uuid.uuid4()),
            "tool_name": "oa__purchase_pay",
            "tool_args": {"amount": 60000},
            "registry_digest": manifest["digest"],
            "initiator": {"id": "u1", "email": "charlie@acme.test"},
        },
    )
    limit = next(hook["id"] for hook in manifest["hooks"] if hook["name"] == "connector_rate_limit")
    return {
        "HOOKGATE_TEST_AGENT": AGENT,
        "HOOKGATE_TEST_CHANNEL": "finance-chat",
        "HOOKGATE_TEST_DIGEST": manifest["digest"],
        "HOOKGATE_TEST_HOOK": limit,
        "HOOKGATE_TEST_CONFIRMATION": made.raise_for_status().json()["id"],
    }


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One portal for all tests of this folder."""
    environment = {"HOOKGATE_CHANNEL_HOSTS": "127.0.0.1:1", **sample.placeholders("http://127.0.0.1:1")}
    with PortalProcess(tmp_path_factory.mktemp("portal"), environment=environment) as portal:
        services.migrate(portal)
        portal.manage("apply", str(sample.FILE), *sample.ENV)
        credentials = {
            "organization": portal.manage("issue_key", "--org", "acme", "--scopes", SCOPES).strip(),
            "agent": portal.manage("issue_key", "--agent", f"acme/{AGENT}").strip(),
            "person": portal.manage("issue_token", "--user", "alice", "--scopes", "read,decide").strip(),
            "nobody": "",
        }
        portal.start()
        with _client(portal, credentials["agent"]) as client:
            rows = _rows(client)
        yield Stage(portal, credentials, rows)
