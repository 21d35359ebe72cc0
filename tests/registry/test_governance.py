"""What the portal itself reads in a published registry when it judges a request."""

import pytest

from hooks_app.models import Agent
from hooks_app.registry import heads
from hooks_app.registry.manifests import Governance
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    acme = make.organization("acme")
    make.policy(acme, "payments")
    pay = {"requires_confirmation": True, "policy": "payments", "redact": ["card"]}
    make.connector(acme, "oa", pay=pay, star={"writes": False})
    agent = make.agent(
        acme, published=False, approval_policy="payments", max_pending=3, unlisted_tools="allow"
    )
    make.approval_channel(agent, make.channel(acme))
    make.tool(agent, "calculator", writes=False)
    make.connector(acme, "crm", write={})
    make.class_hook(agent, "feishu_gate", params={"channel": "ops-feishu"})
    over_ten = {"tool_filter": "crm__*", "when": "args.amount > 10", "params": {"policy": "payments"}}
    make.class_hook(agent, "approval_gate", **over_ten)
    return agent


def published(agent: Agent) -> Governance:
    make.publish(agent)
    return heads.published(agent)


def test_the_agents_settings_are_those_that_were_published(agent: Agent) -> None:
    governance = published(agent)
    agent.max_pending = 9
    agent.save()
    assert heads.published(agent) == governance
    assert (governance.mode, governance.approval_channels, governance.policy) == (
        "auto",
        ("ops-feishu",),
        "payments",
    )
    assert (governance.max_pending, governance.unlisted_tools) == (3, "allow")
    assert governance.require_confirmation_for_all is False
    assert (governance.revision, governance.digest) == (1, heads.serve(agent, "chat").digest)


def test_a_tools_own_entry_comes_before_its_connectors_star(agent: Agent) -> None:
    governance = published(agent)
    pay, other = governance.tool_facts("oa__pay"), governance.tool_facts("oa__other")
    assert (pay.listed, pay.writes, pay.requires_confirmation) == (True, True, True)
    assert (pay.policy, pay.redact) == ("payments", ("card",))
    assert (other.listed, other.connector, other.writes, other.policy) == (True, "oa", False, None)
    calculator = governance.tool_facts("calculator")
    assert (calculator.listed, calculator.connector, calculator.writes) == (True, None, False)


def test_a_tool_that_nobody_describes_writes(agent: Agent) -> None:
    stranger = published(agent).tool_facts("crm__delete")
    assert (stranger.listed, stranger.connector, stranger.writes) == (False, "crm", True)
    assert stranger.requires_confirmation is False
    agent.unlisted_tools = "confirm"
    agent.save()
    assert published(agent).tool_facts("crm__delete").requires_confirmation is True


def test_gate_entries_match_by_filter_and_condition(agent: Agent) -> None:
    bare, conditional = published(agent).triggers
    assert (bare.bare, bare.channel, bare.matches("anything", {})) == (True, "ops-feishu", True)
    assert (conditional.bare, conditional.policy) == (False, "payments")
    assert conditional.matches("crm__delete", {"args": {"amount": 11}}) is True
    assert conditional.matches("crm__delete", {"args": {"amount": 9}}) is False
    assert conditional.matches("crm__delete", {"args": {}}) is True  # can't be evaluated: asks
    assert conditional.matches("oa__pay", {"args": {"amount": 11}}) is False
