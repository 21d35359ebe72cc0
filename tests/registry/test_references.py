"""What a registry refers to must be there, and must be something that this release can carry out."""

from typing import Any

import pytest

from hooks_app.models import Agent
from portal.models import Organization
from tests import make
from tests.registry.asking import refused, served

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> Organization:
    return make.organization("acme")


@pytest.fixture
def agent(acme: Organization) -> Agent:
    return make.agent(acme, published=False)


def test_the_policy_of_an_action_and_the_organizations_must_exist(acme: Organization, agent: Agent) -> None:
    make.connector(acme, "oa", pay={"policy": "gone"})
    acme.approval_policy = "gone-too"
    acme.save()
    assert refused(agent) == {
        "connectors.oa.actions.pay.policy": "unknown_policy",
        "organization.approval_policy": "unknown_policy",
    }
    agent.approval_policy = "default"  # built in; the organization's is then nobody's
    agent.save()
    assert refused(agent) == {"connectors.oa.actions.pay.policy": "unknown_policy"}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("when", "args.amount > 1"),
        ("allow_edit_args", True),
        ("remind_after_seconds", 10),
        ("escalate_after_seconds", 10),
        ("escalate_to", {"group": "x"}),
        ("stages", [{"name": "a"}]),
        ("sticky_denial_seconds", 30),
    ],
)
def test_a_policy_that_asks_for_what_is_not_there_yet_is_refused_where_it_would_hold(
    acme: Organization, agent: Agent, option: str, value: Any
) -> None:
    make.policy(acme, "fancy", **{option: value})
    assert served(agent)["revision"] == 1  # nobody uses it
    agent.approval_policy = "fancy"
    agent.save()
    assert refused(agent) == {f"approval_policies.fancy.{option}": "not_available"}


def test_grants_are_refused_while_they_are_not_there(acme: Organization, agent: Agent) -> None:
    make.policy(acme, "fancy", grants={"allowed": True})
    make.class_hook(agent, "approval_gate", tool_filter="oa__*", params={"policy": "fancy"})
    assert refused(agent) == {"approval_policies.fancy.grants.allowed": "not_available"}


def test_channel_only_needs_a_channel_that_works(acme: Organization, agent: Agent) -> None:
    agent.confirmation_mode = "channel_only"
    agent.save()
    assert refused(agent) == {"approval_channels": "no_usable_channel"}
    ops = make.channel(acme, enabled=False)
    make.approval_channel(agent, ops)
    assert refused(agent) == {"approval_channels": "no_usable_channel"}
    ops.enabled = True
    ops.save()
    assert served(agent)["confirmation"] | {"max_pending": 0} == {
        "mode": "channel_only",
        "channels": ["ops-feishu"],
        "policy": None,
        "tool_policies": {},
        "max_pending": 0,
    }


def test_channel_only_is_content_with_a_gate_entry_that_names_a_channel_for_everything(
    acme: Organization, agent: Agent
) -> None:
    agent.confirmation_mode = "channel_only"
    agent.save()
    ops = make.channel(acme)
    entry = make.class_hook(agent, "feishu_gate")
    assert served(agent)["hooks"][-1]["params"]["triggers"][0]["channel"] == "ops-feishu"
    entry.tool_filter = "oa__*"
    entry.save()
    assert refused(agent) == {"approval_channels": "no_usable_channel"}  # unlisted tools ask as well
    agent.unlisted_tools = "deny"
    agent.save()
    assert served(agent)["unlisted_tools"] == "deny"
    ops.config = ops.config | {"chat_id": ""}
    entry.params = {"channel": "ops-feishu"}
    ops.enabled = False
    ops.save()
    entry.save()
    assert refused(agent) == {"hooks.class_hooks[0].params.channel": "no_usable_channel"}


def test_an_agents_tools_can_not_speak_for_a_connector(acme: Organization, agent: Agent) -> None:
    make.connector(acme, "oa", star={"requires_confirmation": True})
    make.tool(agent, "oa__purchase_pay", writes=False)
    make.tool(agent, "*", writes=False)
    assert refused(agent) == {"tools[0].name": "connector_tool", "tools[1].name": "invalid"}


def test_fallback_channels_are_refused_while_they_are_not_there(acme: Organization, agent: Agent) -> None:
    agent.fallback_channels.add(make.channel(acme))
    assert refused(agent) == {"fallback_channels": "not_available"}
