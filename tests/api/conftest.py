"""Two organizations, so that every test can try to look over the fence."""

import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from hookgate import canonical

from hooks_app.registry import heads
from portal import audit, windows
from portal.models import User
from portal.people import tokens
from tests import make
from tests.api.client import Api


@pytest.fixture(autouse=True)
def _fresh_limits() -> None:
    windows.storage.cache_clear()


def token(user: User, *scopes: str) -> str:
    """The plain text of a personal token."""
    return tokens.issue(user=user, scopes=scopes or ("read", "decide"), actor=audit.SHELL)[1]


@pytest.fixture
def world(db: None) -> Any:
    """acme with two agents and one person per role; beta with one agent and an admin."""
    acme, beta = make.organization("acme"), make.organization("beta")
    make.connector(
        acme,
        purchase_pay={"requires_confirmation": True, "redact": ["card_number"]},
        stock={"writes": False},
    )
    people = {
        name: make.user(name, acme, role)
        for name, role in [
            ("alice", "admin"),
            ("bob", "approver"),
            ("carol", "auditor"),
            ("dave", "member"),
        ]
    }
    mallory = make.user("mallory", beta, "admin")
    procurement = make.agent(acme, "procurement")
    reports = make.agent(acme, "reports")
    theirs = make.agent(beta, "procurement")
    return SimpleNamespace(
        acme=acme,
        beta=beta,
        **people,
        mallory=mallory,
        procurement=procurement,
        reports=reports,
        theirs=theirs,
        runtime=Api(make.key(acme, procurement)),
        runtime_of_acme=Api(make.key(acme)),
        runtime_of_reports=Api(make.key(acme, reports)),
        runtime_of_beta=Api(make.key(beta)),
        nobody=Api(),
        person=lambda name, *scopes: Api(token(people.get(name) or mallory, *scopes)),
    )


def confirmation(whose: Any, **changes: Any) -> dict[str, Any]:
    """A body for ``POST /confirmations``."""
    served = canonical.loads(heads.serve(whose, "chat").body)
    body: dict[str, Any] = {
        "agent": whose.slug,
        "conversation_id": "c7",
        "tool_call_id": "call_01",
        "tool_name": "oa__purchase_pay",
        "tool_args": {"amount": 60000, "card_number": "4111-1111"},
        "hook": "approval_gate",
        "registry_digest": served["digest"],
        "initiator": {"id": "u42", "name": "Kim", "email": "kim@acme.test"},
    }
    return {**body, **changes}


@pytest.fixture
def bodies(world) -> dict[tuple[str, str], dict[str, Any]]:
    """A good body for every call that takes one."""
    make.channel(world.acme)
    make.class_hook(world.procurement, "connector_rate_limit")
    make.publish(world.procurement)
    made = world.runtime.post("/confirmations", confirmation(world.procurement)).body
    path = f"/confirmations/{made['id']}"
    entry = {
        "id": str(uuid.uuid4()),
        "agent": "procurement",
        "tool_name": "oa__stock",
        "status": "succeeded",
        "started_at": "2026-11-02T09:30:00Z",
        "user": {"id": "u42"},
        "args": {"amount": 1},
        "duration_ms": 1.5,
        "trace": [{"hook": "approval_gate"}],
        "side_effects": [1],
    }
    return {
        ("POST", "/confirmations"): confirmation(world.procurement, timeout_seconds=60, summary="s"),
        ("POST", f"{path}/consume"): {"args_digest": made["args_digest"], "attempt": str(uuid.uuid4())},
        ("POST", f"{path}/outcome"): {"status": "failed", "detail": "d"},
        ("POST", f"{path}/cancel"): {},
        ("POST", f"{path}/respond"): {"decision": "reject", "reason": "r", "args": None},
        ("POST", "/calls"): {"calls": [entry]},
        ("POST", "/limits/acquire"): {
            "agent": "procurement",
            "hook": str(uuid.uuid4()),
            "connector": "oa",
            "user": "u42",
            "call": str(uuid.uuid4()),
        },
        ("POST", "/channels/ops-feishu/messages"): {"text": "t", "agent": "procurement"},
        ("PUT", "/agents/procurement/tools"): {"tools": [{"name": "oa__stock", "input_schema": {}}]},
    }
