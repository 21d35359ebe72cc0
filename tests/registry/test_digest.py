"""The digest speaks of what was declared, not of the rows that happen to hold it."""

import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from hookgate import canonical

from hooks_app.models import Action, Agent, AgentTool, ApprovalChannel, Declaration
from hooks_app.registry import heads
from tests import make

pytestmark = pytest.mark.django_db

PYTHON = {"type": "python", "target": "acme.hooks:redact"}
HOOKS: list[dict[str, Any]] = [
    {
        "name": "feishu_gate",
        "tool_filter": "oa__*",
        "params": {"policy": "payments", "channel": "ops-feishu"},
    },
    {"name": "connector_rate_limit", "priority": 100, "params": {"max_calls": 3}},
    {"name": "connector_rate_limit", "priority": 100, "params": {"max_calls": 7}, "when": "args.amount > 5"},
    {"name": "session_context", "timeout_seconds": 2.0},
    {"name": "audit_log", "params": {"redact": ["iban"]}},
    {"source": "events", "event": "PostToolUse", "handler": PYTHON, "matcher": "oa__.*", "group_index": 1},
    {"source": "events", "event": "PostToolUse", "handler": PYTHON | {"timeout": 3}, "group_index": 2},
    {"source": "events", "event": "Stop", "handler": PYTHON},
]
TOOLS = ["calculator", "clock", "notes"]
ACTIONS: dict[str, dict[str, Any]] = {
    "pay": {"requires_confirmation": True, "policy": "payments", "redact": ["card", "iban"]},
    "read": {"writes": False},
    "star": {},
}
CHANNELS = ["ops-feishu", "finance-feishu"]


def declare(order: random.Random, *, same_positions: bool = False) -> Agent:
    """The same declarations every time; their rows are inserted in an order that ``order`` makes up."""

    def shuffled(items: Any) -> list[Any]:
        every = list(items)
        return order.sample(every, k=len(every))

    organization = make.organization("acme")
    channels = {name: make.channel(organization, name) for name in shuffled(CHANNELS)}
    make.policy(organization, "payments")
    for name in shuffled(["oa", "crm"]):
        make.connector(organization, name, **dict(shuffled(ACTIONS.items())))
    for name in shuffled(["researcher", "other"]):
        make.agent(organization, name, published=False)
    agent = make.agent(organization, "procurement", published=False, may_delegate_to=["researcher"])
    for position, columns in shuffled(enumerate(HOOKS)):
        Declaration.objects.create(agent=agent, position=0 if same_positions else position, **columns)
    for position, name in shuffled(enumerate(TOOLS)):
        AgentTool.objects.create(agent=agent, name=name, position=position)
    for position, name in shuffled(enumerate(CHANNELS)):
        ApprovalChannel.objects.create(agent=agent, channel=channels[name], position=position)
    make.publish(agent)
    return agent


@pytest.mark.parametrize("same_positions", [False, True])
def test_neither_ids_nor_the_order_of_rows_change_the_digest(same_positions: bool) -> None:
    order = random.Random(20261130)
    digests, ids = set(), set()
    for _ in range(12):
        with transaction.atomic():
            agent = declare(order, same_positions=same_positions)
            digests.add(heads.serve(agent, "chat").digest)
            ids.add(agent.pk)
            transaction.set_rollback(True)
    assert len(ids) == 12
    assert len(digests) == 1


def change_freshness(agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(max_stale_seconds=301)


def swap_two_hooks(agent: Agent) -> None:
    first, second = agent.declarations.filter(name="connector_rate_limit").order_by("position")
    first.position, second.position = second.position, first.position
    first.save()
    second.save()


def change_a_parameter(agent: Agent) -> None:
    agent.declarations.filter(name="audit_log").update(params={"redact": ["bic"]})


def change_an_action(agent: Agent) -> None:
    Action.objects.filter(name="read", connector__slug="oa").update(writes=True)


def change_the_channels(agent: Agent) -> None:
    agent.approval_channel_rows.filter(channel__slug="finance-feishu").delete()


@pytest.mark.parametrize(
    "change", [change_freshness, swap_two_hooks, change_a_parameter, change_an_action, change_the_channels]
)
def test_every_change_of_what_holds_changes_the_digest_and_back(change: Callable[[Agent], None]) -> None:
    agent = declare(random.Random(1))
    before = heads.serve(agent, "chat")
    change(agent)
    agent.refresh_from_db()
    make.publish(agent)
    heads.inputs_changed(agent.organization)
    after = heads.serve(agent, "chat")
    assert after.digest != before.digest
    assert (before.revision, after.revision) == (1, 2)


def test_the_digest_is_the_one_of_the_contract() -> None:
    """Over everything but itself, ``revision``, ``state``, ``surface`` and every ``id``: computed by hand here."""
    body = json.loads(heads.serve(declare(random.Random(2)), "chat").body)
    digest = body.pop("digest")
    for key in ("revision", "state", "surface"):
        del body[key]
    del body["agent"]["id"]
    for hook in body["hooks"]:
        del hook["id"]
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).replace("2.0", "2")
    assert digest == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_a_zone_is_named_only_where_it_is_not_utc(db: None) -> None:
    acme = make.organization("acme")
    agent = make.agent(acme)
    before = canonical.loads(heads.serve(agent, "chat").body)
    assert "time_zone" not in before
    acme.time_zone = "Asia/Seoul"
    acme.save()
    heads.inputs_changed(acme)
    served = canonical.loads(heads.serve(agent, "chat").body)
    assert served["time_zone"] == "Asia/Seoul"
    assert served["revision"] == before["revision"] + 1
    assert {**served, "time_zone": None, "digest": None, "revision": None} == {
        **before, "time_zone": None, "digest": None, "revision": None,
    }  # fmt: skip
