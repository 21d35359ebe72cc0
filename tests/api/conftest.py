"""Two organizations, so that every test can try to look over the fence."""

from types import SimpleNamespace
from typing import Any

import pytest
from hookgate import canonical

from hooks_app import limits, registry
from portal import audit, tokens
from portal.models import User
from tests import make
from tests.api.client import Api


@pytest.fixture(autouse=True)
def _fresh_limits() -> None:
    limits._storage.cache_clear()


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
    served = canonical.loads(registry.serve(whose, "chat").body)
    body: dict[str, Any] = {
        "agent": whose.slug,
        "conversation_id": "c7",
        "tool_call_id": "call_01",
        "tool_name": "oa__purchase_pay",
        "tool_args": {"amount": 60000, "card_number": "4111"},
        "hook": "approval_gate",
        "registry_digest": served["digest"],
        "initiator": {"id": "u42", "name": "Kim", "email": "kim@acme.test"},
    }
    return {**body, **changes}
