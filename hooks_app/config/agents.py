"""Writes agents: what holds at once, and the draft with its tools and hooks."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from channels_app.models import Channel
from hooks_app.config import members, switches
from hooks_app.config.agents_schema import Agent as AgentEntry
from hooks_app.config.agents_schema import Hooks
from hooks_app.config.changes import Run, assign, show, verb_of
from hooks_app.config.shared import tool_columns
from hooks_app.governance import agents
from hooks_app.models import Agent, AgentTool, ApprovalChannel, Declaration, FallbackChannel
from portal.models import Organization, User

Columns = dict[str, Any]
_CONTENT = (
    "source", "name", "tool_filter", "when", "priority", "on_error", "timeout_seconds", "enabled", "mode", "params",
    "allow_unmatched", "event", "matcher", "handler",
)  # fmt: skip


def write_agent(run: Run, organization: Organization, entry: AgentEntry, at: str) -> Agent:
    """An agent's row and its draft. Publishing is :mod:`hooks_app.config.apply`'s."""
    row = Agent.objects.filter(organization=organization, slug=entry.slug).first()
    new = row is None
    row = row or Agent(organization=organization, slug=entry.slug)
    data = assign(row, {**_columns(entry), "owner": _owner(run, organization, entry, at)})
    data |= _write_channels(row, ApprovalChannel, "approval_channels", entry.approval_channels)
    data |= _write_channels(row, FallbackChannel, "fallback_channels", entry.fallback_channels)
    data |= _write_tools(row, entry)
    data |= _write_hooks(row, entry.declared_hooks())
    data |= switches.set_halted(run, organization, row, entry.halted)
    if new:
        run.outdate(organization)
    elif data:
        agents.changed(row)
    path = f"{organization.slug}/{entry.slug}"
    run.record(verb_of(new, data), "agent", path, organization, row.pk, data)
    return row


def _columns(entry: AgentEntry) -> Columns:
    names = (
        "enabled", "protected", "confirmation_mode", "require_confirmation_for_all", "approval_policy",
        "unlisted_tools", "may_delegate_to", "max_pending", "barrier",
    )  # fmt: skip
    return {
        **{name: getattr(entry, name) for name in names},
        "name": entry.name or entry.slug,
        "revalidate_after_seconds": entry.freshness.revalidate_after_seconds,
        "max_stale_seconds": entry.freshness.max_stale_seconds,
    }


def _owner(run: Run, organization: Organization, entry: AgentEntry, at: str) -> User | None:
    if entry.owner is None:
        return None
    owner = User.objects.filter(username=entry.owner, memberships__organization=organization).first()
    if owner is None:
        members.warn_of_invited(run, f"{at}.owner", entry.owner, "owns nothing")
    return owner


def _write_channels(
    agent: Agent, model: type[ApprovalChannel] | type[FallbackChannel], key: str, slugs: list[str]
) -> Columns:
    rows = model.objects.filter(agent=agent)
    before = list(rows.values_list("channel__slug", flat=True))
    if before == slugs:
        return {}
    rows.delete()
    channels = {channel.slug: channel for channel in Channel.objects.filter(organization=agent.organization)}
    for position, slug in enumerate(slugs):
        model.objects.create(agent=agent, channel=channels[slug], position=position)
    return {key: [show(before), show(slugs)]}


def _write_tools(agent: Agent, entry: AgentEntry) -> Columns:
    stored = {row.name: row for row in AgentTool.objects.filter(agent=agent)}
    changed = []
    for position, tool in enumerate(entry.tools):
        row = stored.pop(tool.name, None) or AgentTool(agent=agent, name=tool.name)
        if assign(row, {**tool_columns(tool), "position": position}):
            changed.append(tool.name)
    for rest in stored.values():
        rest.delete()
    names = sorted([*changed, *stored])
    return {"tools": names} if names else {}


def _write_hooks(agent: Agent, hooks: Hooks) -> Columns:
    """The declarations, in order. A row whose entry is still there keeps its id, which runtimes know it by."""
    wanted = [*_class_hooks(hooks), *_event_handlers(hooks)]
    stored = list(Declaration.objects.filter(agent=agent))
    if _compact(stored) == _compact([Declaration(**columns) for columns in wanted]):
        return {}
    rows = _pair(wanted, stored)
    kept = {row.pk for row in rows if row is not None}
    Declaration.objects.filter(agent=agent).exclude(pk__in=kept).delete()
    for position, (columns, row) in enumerate(zip(wanted, rows, strict=True)):
        assign(row or Declaration(agent=agent), {**columns, "position": position})
    return {"hooks": [len(stored), len(wanted)]}


def _class_hooks(hooks: Hooks) -> Iterator[Columns]:
    for hook in hooks.class_hooks:
        yield {"source": Declaration.Source.CLASS_HOOKS.value, **hook.model_dump()}


def _event_handlers(hooks: Hooks) -> Iterator[Columns]:
    for event, groups in hooks.events.items():
        for index, group in enumerate(groups):
            for handler in group.hooks:
                yield {
                    "source": Declaration.Source.EVENTS.value,
                    "event": event,
                    "group_index": index,
                    "matcher": group.matcher,
                    "handler": handler,
                }


def _content(row: Declaration) -> tuple[Any, ...]:
    # An admin's form leaves an empty text where a file has nothing; an empty matcher means something.
    return tuple(
        None if name != "matcher" and getattr(row, name) == "" else getattr(row, name) for name in _CONTENT
    )


def _compact(rows: list[Declaration]) -> list[tuple[Any, ...]]:
    """The rows' content in order, with groups counted from 0 per event: gaps in their numbers mean nothing."""
    compacted = [(*_content(row), 0) for row in rows if row.source == Declaration.Source.CLASS_HOOKS]
    for _, of_event in groupby(_events_in_order(rows), key=lambda row: row.event):
        groups = groupby(of_event, key=lambda row: row.group_index)
        for index, (_, group) in enumerate(groups):
            compacted += [(*_content(row), index) for row in group]
    return compacted


def _events_in_order(rows: list[Declaration]) -> list[Declaration]:
    handlers = [row for row in rows if row.source == Declaration.Source.EVENTS]
    first = {row.event: index for index, row in reversed(list(enumerate(handlers)))}
    return sorted(handlers, key=lambda row: (first[row.event], row.group_index))


def _pair(wanted: list[Columns], stored: list[Declaration]) -> list[Declaration | None]:
    """For each wanted entry the stored row it becomes: one with the same content, else one of the same name."""
    left = list(stored)
    paired: list[Declaration | None] = [None] * len(wanted)
    for same in (_same_content, _same_name):
        for index, columns in enumerate(wanted):
            if paired[index] is None:
                paired[index] = next((row for row in left if same(columns, row)), None)
                left = [row for row in left if row is not paired[index]]
    return paired


def _same_content(columns: Columns, row: Declaration) -> bool:
    return _content(Declaration(**columns)) == _content(row)


def _same_name(columns: Columns, row: Declaration) -> bool:
    return (columns["source"], columns.get("name", ""), columns.get("event", "")) == (
        row.source,
        row.name,
        row.event,
    )
