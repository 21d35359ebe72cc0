"""Makes an agent's draft what one of its publications holds: the way back, for the draft too."""

from typing import Any

from django.db import transaction

from channels_app.models import Channel
from hooks_app.models import Agent, AgentTool, ApprovalChannel, Declaration, FallbackChannel
from hooks_app.registry.publishing import SETTINGS
from portal import audit

_CHANNELS: dict[str, Any] = {"approval_channels": ApprovalChannel, "fallback_channels": FallbackChannel}
_SHARED = ("tool_filter", "when", "priority", "on_error", "timeout_seconds", "enabled", "mode")


@transaction.atomic
def restore(agent: Agent, content: dict[str, Any], *, actor: audit.Actor) -> list[str]:
    """Write ``content``, as :func:`hooks_app.registry.publishing.draft` gives it, over the agent's draft.

    Declarations get the ids that they had, by which runtimes and limits know them. Returns the slugs of channels that
    are gone since, and so are missing from the draft.
    """
    Agent.objects.filter(pk=agent.pk).update(**{name: content[name] for name in SETTINGS})
    missing = [slug for key in _CHANNELS for slug in _write_channels(agent, key, content[key])]
    AgentTool.objects.filter(agent=agent).delete()
    AgentTool.objects.bulk_create(
        AgentTool(agent=agent, position=position, **tool) for position, tool in enumerate(content["tools"])
    )
    Declaration.objects.filter(agent=agent).delete()
    Declaration.objects.bulk_create(_declarations(agent, content))
    audit.append(
        organization=agent.organization,
        actor=actor,
        action="agent.draft_restored",
        kind="agent",
        id=agent.pk,
        name=agent.slug,
        data={"missing_channels": missing},
    )
    return missing


def _write_channels(agent: Agent, key: str, slugs: list[str]) -> list[str]:
    model = _CHANNELS[key]
    model.objects.filter(agent=agent).delete()
    there = {row.slug: row for row in Channel.objects.filter(organization=agent.organization, slug__in=slugs)}
    for position, slug in enumerate(slugs):
        if slug in there:
            model.objects.create(agent=agent, channel=there[slug], position=position)
    return [slug for slug in slugs if slug not in there]


def _declarations(agent: Agent, content: dict[str, Any]) -> list[Declaration]:
    rows: list[Declaration] = []
    for item in [*content["class_hooks"], *content["events"]]:
        row = Declaration(pk=item["id"], agent=agent, position=len(rows))
        for name in _SHARED:
            setattr(row, name, item[name])
        if "name" in item:
            row.source = Declaration.Source.CLASS_HOOKS
            row.name, row.params = item["name"], item["params"]
            row.allow_unmatched = item.get("allow_unmatched", False)
        else:
            row.source = Declaration.Source.EVENTS
            row.event, row.group_index = item["event"], item["group"]
            row.matcher, row.handler = item["matcher"], item["handler"]
        rows.append(row)
    return rows
