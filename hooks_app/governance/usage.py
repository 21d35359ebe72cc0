"""Who uses a policy or a group: what is in use is not deleted."""

from collections.abc import Iterator
from typing import Any

from hooks_app.models import Action, Agent, AgentTool, ApprovalPolicy, Declaration, RegistryHead
from hooks_app.models.policies import BUILT_IN
from portal.models import Group, Organization


def of_policy(policy: ApprovalPolicy) -> list[str]:
    """What names the policy, in drafts and in what is published; nothing for one that hides the built-in policy."""
    if policy.slug == BUILT_IN:
        return []
    return list(dict.fromkeys(_of_policy(policy.organization, policy.slug)))


def _of_policy(organization: Organization, slug: str) -> Iterator[str]:
    if Organization.objects.filter(pk=organization.pk, approval_policy=slug).exists():
        yield f"organization {organization.slug}"
    for action in Action.objects.filter(connector__organization=organization, policy=slug).select_related(
        "connector"
    ):
        yield f"action {action}"
    for agent in Agent.objects.filter(organization=organization, approval_policy=slug):
        yield f"agent {agent.slug}"
    for tool in AgentTool.objects.filter(agent__organization=organization, policy=slug).select_related(
        "agent"
    ):
        yield f"tool {tool.name} of agent {tool.agent.slug}"
    yield from _of_declarations(organization, "policy", slug)
    for head in _heads(organization):
        if slug in _named_policies(head.publication.content):
            yield f"agent {head.agent.slug} (published)"


def of_group(group: Group) -> list[str]:
    """Which policies let the group decide, at any stage."""
    policies = ApprovalPolicy.objects.filter(organization=group.organization).select_related("group")
    return [f"policy {policy.slug}" for policy in policies if group.slug in _groups(policy)]


def _groups(policy: ApprovalPolicy) -> list[str | None]:
    named = [policy.group.slug if policy.group else None, (policy.escalate_to or {}).get("group")]
    return named + [stage.get("group") for stage in policy.stages if isinstance(stage, dict)]


def _of_declarations(organization: Organization, key: str, slug: str) -> Iterator[str]:
    for row in Declaration.objects.filter(agent__organization=organization).select_related("agent"):
        if isinstance(row.params, dict) and row.params.get(key) == slug:
            yield f"hook {row.name} of agent {row.agent.slug}"


def _heads(organization: Organization) -> Any:
    return RegistryHead.objects.filter(agent__organization=organization).select_related(
        "agent", "publication"
    )


def _named_policies(content: dict[str, Any]) -> list[str | None]:
    hooks = [item["params"].get("policy") for item in content["class_hooks"]]
    return [content["approval_policy"], *hooks, *(tool["policy"] for tool in content["tools"])]
