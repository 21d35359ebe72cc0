"""What the portal itself reads in a published registry when it judges a request."""

import pytest
from hookgate.registry.manifest import manifest_digest

from hooks_app.models import Agent, RegistryRevision
from hooks_app.registry import heads, manifests
from hooks_app.registry.manifests import Governance
from portal.lib.problems import Problem
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
    assert (governance.max_pending, governance.manifest.unlisted_tools) == (3, "allow")
    assert governance.manifest.require_confirmation_for_all is False
    assert (governance.manifest.revision, governance.manifest.digest) == (
        1,
        heads.serve(agent, "chat").digest,
    )


def test_a_tools_own_entry_comes_before_its_connectors_star(agent: Agent) -> None:
    governance = published(agent)
    manifest = governance.manifest
    pay, other = manifest.tool_facts("oa__pay"), manifest.tool_facts("oa__other")
    assert (pay.listed, pay.writes, pay.requires_confirmation) == (True, True, True)
    assert (governance.tool_policy("oa__pay"), pay.redact) == ("payments", ("card",))
    assert (other.listed, other.connector, other.writes) == (True, "oa", False)
    assert governance.tool_policy("oa__other") is None
    calculator = manifest.tool_facts("calculator")
    assert (calculator.listed, calculator.connector, calculator.writes) == (True, None, False)


def test_a_tool_that_nobody_describes_writes(agent: Agent) -> None:
    stranger = published(agent).manifest.tool_facts("crm__delete")
    assert (stranger.listed, stranger.connector, stranger.writes) == (False, "crm", True)
    assert stranger.requires_confirmation is False
    agent.unlisted_tools = "confirm"
    agent.save()
    assert published(agent).manifest.tool_facts("crm__delete").requires_confirmation is True


def test_gate_entries_are_those_that_the_runtime_reads(agent: Agent) -> None:
    bare, conditional = published(agent).manifest.triggers
    assert (bare.bare, bare.channel, bare.catches_tool("anything")) == (True, "ops-feishu", True)
    assert (conditional.bare, conditional.policy) == (False, "payments")
    assert conditional.catches_tool("crm__delete")
    assert not conditional.catches_tool("oa__pay")
    assert conditional.condition is not None
    assert conditional.condition.evaluate({"args": {"amount": 11}}) is True
    assert conditional.condition.evaluate({"args": {"amount": 9}}) is False


def test_a_registry_that_the_runtime_reads_no_more_lets_nobody_be_asked(agent: Agent) -> None:
    """Stored by another release; no runtime runs anything by it either."""
    published(agent)
    stored = RegistryRevision.objects.get(agent=agent).manifest
    stored["hooks"][0]["name"] = "a_hook_of_tomorrow"
    stored["digest"] = manifest_digest(stored)
    with pytest.raises(Problem) as refused:
        manifests.govern(stored)
    assert (refused.value.status, refused.value.code) == (422, "registry_unbuildable")
    assert "publish the agent again" in refused.value.detail
    assert refused.value.errors[0].path == "hooks[0].name"
