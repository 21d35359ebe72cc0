"""Two organizations that name everything alike: whoever is told apart by a name alone is not told apart."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.apps import apps

from channels_app import identities
from hooks_app.models import Agent
from hooks_app.registry import heads
from portal.models import Group, GroupMember, Organization, User
from tests import make
from tests.api.client import Api
from tests.api.conftest import token

CALL = str(uuid.UUID(int=7))
TOOL_CALLS = ("call-1", "call-2", "call-3")


@dataclass
class Twin:
    """One of them. ``ids`` are the ids, as text, of all rows that building it made; small numbers are left out."""

    organization: Organization
    agent: Agent
    people: dict[str, User]
    keys: dict[str, Api]
    persons: dict[str, Api]
    requests: list[str]
    calls: list[str]
    ids: frozenset[str]


def build(slug: str) -> Twin:
    """Everything but ``slug`` and the people's names is the same in both."""
    before = _ids()
    organization = make.organization(slug, name="Twin")
    people = {
        role: make.user(f"{slug}-{role}", organization, role, email=f"{role}@{slug}.test")
        for role in ("admin", "approver", "auditor", "member")
    }
    agent = _agent(organization, people)
    # Lists build what is stale; here they find it built.
    heads.serve(make.agent(organization, "reports"), "chat")
    keys = {"agent": Api(make.key(organization, agent)), "organization": Api(make.key(organization))}
    persons = {role: Api(token(user)) for role, user in people.items()}
    requests = [_ask(agent, keys["agent"], call) for call in TOOL_CALLS]
    assert (
        persons["approver"].post(f"/confirmations/{requests[1]}/respond", {"decision": "approve"}).status
        == 200
    )
    assert keys["agent"].post(f"/confirmations/{requests[2]}/cancel").status == 200
    calls = _log(keys["agent"], persons["auditor"])
    return Twin(organization, agent, people, keys, persons, requests, calls, frozenset(_ids() - before))


def _agent(organization: Organization, people: dict[str, User]) -> Agent:
    channel = make.channel(organization, "chat")
    identities.bind(
        organization=organization, user=people["approver"], channel=channel, external_id="ou_same"
    )
    identities.bind(organization=organization, user=people["member"], channel=None, external_id="u1")
    make.connector(organization, "oa", pay={"requires_confirmation": True})
    make.policy(organization, "payments", scope="approvers")
    group = Group.objects.create(organization=organization, slug="finance")
    GroupMember.objects.create(group=group, user=people["approver"])
    agent = make.agent(organization, "procurement", approval_policy="payments", published=False)
    make.approval_channel(agent, channel)
    make.class_hook(agent, "result_truncate", params={"max_chars": 500})
    make.publish(agent)
    return agent


def proposal(agent: Agent, call: str) -> dict[str, Any]:
    """The body that asks for a confirmation; the same in both but for the digest."""
    revision = heads.head(agent).revision
    assert revision is not None
    return {
        "agent": "procurement",
        "conversation_id": "c1",
        "tool_call_id": call,
        "tool_name": "oa__pay",
        "tool_args": {"amount": 5},
        "registry_digest": revision.digest,
        "initiator": {"id": "u1"},
    }


def _ask(agent: Agent, key: Api, call: str) -> str:
    answer = key.post("/confirmations", proposal(agent, call), headers={"Hookgate-Runtime": "worker"})
    assert answer.status == 201, answer.body
    return str(answer.body["id"])


def _log(key: Api, auditor: Api) -> list[str]:
    entry = {
        "id": CALL,
        "agent": "procurement",
        "tool_name": "oa__pay",
        "status": "succeeded",
        "started_at": "2031-01-01T00:00:00Z",
        "conversation_id": "c1",
        "user": {"id": "u1"},
    }
    assert key.post("/calls", {"calls": [entry]}).body == {"accepted": 1, "duplicates": 0}
    return [row["id"] for row in auditor.get("/calls").body["results"]]


def _ids() -> set[str]:
    found: set[str] = set()
    for model in apps.get_models():
        if model._meta.app_label in ("portal", "channels_app", "hooks_app"):
            keys = model._default_manager.values_list("pk", flat=True)
            found |= {str(key) for key in keys if isinstance(key, uuid.UUID)}
    return found
