"""Writes what an organization's agents share: channels, policies, connectors. A change of it holds at once."""

from typing import Any

from pydantic import ValidationError

from channels_app import channels
from channels_app.models import Channel
from hooks_app.config import schema
from hooks_app.config.agents_schema import Tool
from hooks_app.config.changes import Run
from hooks_app.governance import tables
from hooks_app.models import Action, ApprovalPolicy, Connector
from portal.lib.problems import Problem
from portal.models import Group, Organization


def write_channels(run: Run, organization: Organization, entries: list[schema.Channel], path: str) -> None:
    """The channels. Those that exist go first: they bring an app its new secrets, which one that joins must know."""
    stored = {row.slug: row for row in Channel.objects.filter(organization=organization)}
    for index, entry in sorted(enumerate(entries), key=lambda item: item[1].slug not in stored):
        # Read again: the channel before may have changed the app that both share.
        row = Channel.objects.filter(organization=organization, slug=entry.slug).first()
        _write_channel(run, organization, entry, row, f"{path}.channels[{index}]")


def _write_channel(
    run: Run, organization: Organization, channel: schema.Channel, row: Channel | None, path: str
) -> None:
    """A channel and its app. The writer of channels appends the audit event."""
    before = _content(row) if row else None
    try:
        row = channels.save(
            organization=organization,
            slug=channel.slug,
            type=channel.type,
            enabled=channel.enabled,
            language=channel.language,
            config=run.values.configs[organization.slug, channel.slug],
            channel=row,
            actor=run.actor,
        )
    except Problem as problem:
        run.refuse(path, problem)
        return
    verb = "created" if before is None else "unchanged" if before == _content(row) else "changed"
    if verb != "unchanged":
        run.outdate(organization)
    run.say(verb, "channel", f"{organization.slug}/{channel.slug}")


def _content(row: Channel) -> tuple[Any, ...]:
    return row.app_id, row.type, row.enabled, row.language, dict(row.config)


def write_policies(run: Run, organization: Organization, policies: list[schema.ApprovalPolicy]) -> None:
    """The policies in file order; those that the file doesn't name come after them, as they stood."""
    groups = {group.slug: group for group in Group.objects.filter(organization=organization)}
    stored = {row.slug: row for row in ApprovalPolicy.objects.filter(organization=organization)}
    for position, policy in enumerate(policies):
        new = policy.slug not in stored
        row = stored.pop(policy.slug, None) or ApprovalPolicy(organization=organization, slug=policy.slug)
        values = policy.model_dump(exclude={"slug", "group"})
        if policy.escalate_to is not None:
            values["escalate_to"] = policy.escalate_to.model_dump(exclude_none=True)
        values |= _same_in_other_words(row, policy)
        group = groups[policy.group] if policy.group else None
        who = [getattr(row, name) for name in _WHO]
        run.save(tables.POLICIES, row, {**values, "group": group, "position": position})
        if new or who != [getattr(row, name) for name in _WHO]:
            run.requorumed.add(row.pk)
    tables.reorder(list(stored.values()), start=len(policies))


# How many must decide, and who may.
_WHO = ("scope", "group", "quorum", "reject_quorum", "stages")


def _same_in_other_words(row: ApprovalPolicy, policy: schema.ApprovalPolicy) -> dict[str, Any]:
    """The stored stages and grants where they say what the file says, defaults written out or not."""
    try:
        stages = [schema.Stage.model_validate(stage) for stage in row.stages]
        grants = schema.Grants.model_validate(row.grants)
    except ValidationError:
        return {}
    same = {"stages": stages == policy.stages, "grants": grants == policy.grants}
    return {name: getattr(row, name) for name, equal in same.items() if equal}


def write_connector(run: Run, organization: Organization, connector: schema.Connector) -> None:
    """A connector and exactly the actions that the file gives it."""
    row = Connector.objects.filter(organization=organization, slug=connector.slug).first()
    row = row or Connector(organization=organization, slug=connector.slug)
    run.save(tables.CONNECTORS, row, {})
    stored = {action.name: action for action in Action.objects.filter(connector=row)}
    for position, action in enumerate(connector.actions):
        kept = stored.pop(action.name, None) or Action(connector=row, name=action.name)
        run.save(tables.ACTIONS, kept, {**tool_columns(action), "position": position})
    for rest in stored.values():
        run.delete(tables.ACTIONS, rest)


def tool_columns(tool: Tool) -> dict[str, Any]:
    """The columns of an action or a tool, but for its name."""
    values = tool.model_dump(exclude={"name", "input_schema"})
    return {**values, "schema": tool.input_schema}
