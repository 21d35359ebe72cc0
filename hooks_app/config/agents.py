"""Writes agents: what holds at once, and the draft with its tools and hooks."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from django.db.models import Model

from channels_app.models import Channel
from hooks_app.config import halts, members
from hooks_app.config.agents_schema import Agent as AgentEntry
from hooks_app.config.agents_schema import Hooks
from hooks_app.config.changes import Run, assign
from hooks_app.config.shared import tool_columns
from hooks_app.governance import tables
from hooks_app.models import Agent, AgentTool, ApprovalChannel, Declaration, FallbackChannel
from portal import audit
from portal.models import Organization, User

Columns = dict[str, Any]
_CONTENT = (
    "source", "name", "tool_filter", "when", "priority", "on_error", "timeout_seconds", "enabled", "mode", "params",
    "allow_unmatched", "event", "matcher", "handler",
)  # fmt: skip


def write_agent(run: Run, organization: Organization, entry: AgentEntry, at: str) -> Agent:
    """An agent's row and its draft. Publishing is :mod:`hooks_app.config.apply`'s."""
    row = Agent.objects.filter(organization=organization, slug=entry.slug).first()
    row = row or Agent(organization=organization, slug=entry.slug)
    draft = _Draft(row)
    draft.set_channels(ApprovalChannel, "approval_channels", entry.approval_channels)
    draft.set_channels(FallbackChannel, "fallback_channels", entry.fallback_channels)
    draft.set_tools(entry)
    draft.set_hooks(entry.declared_hooks())
    columns = {**_columns(entry), "owner": _owner(run, organization, entry, at)}
    run.save(tables.AGENTS, row, columns, more=draft.data, parts=draft.parts, gone=draft.gone)
    if halts.set_halted(run, organization, row, entry.halted):
        run.mark_changed("agent", tables.AGENTS.name(row))
    return row


@dataclass
class _Draft:
    """What of an agent's draft differs from the file: the rows to write, those that go, and both in words."""

    agent: Agent
    parts: list[Model] = field(default_factory=list)
    gone: list[Model] = field(default_factory=list)
    data: Columns = field(default_factory=dict)

    def set_channels(
        self, model: type[ApprovalChannel] | type[FallbackChannel], key: str, slugs: list[str]
    ) -> None:
        """The channels in their order."""
        rows: list[Any] = list(model.objects.filter(agent=self.agent).select_related("channel"))
        before = [row.channel.slug for row in rows]
        if before == slugs:
            return
        self.gone += rows
        channels = Channel.objects.filter(organization=self.agent.organization, slug__in=slugs)
        by_slug = {channel.slug: channel for channel in channels}
        self.parts += [
            model(agent=self.agent, channel=by_slug[slug], position=position)
            for position, slug in enumerate(slugs)
        ]
        self.data[key] = [audit.show(before), audit.show(slugs)]

    def set_tools(self, entry: AgentEntry) -> None:
        """The tools without a connector."""
        stored = {row.name: row for row in AgentTool.objects.filter(agent=self.agent)}
        changed = []
        for position, tool in enumerate(entry.tools):
            row = stored.pop(tool.name, None) or AgentTool(agent=self.agent, name=tool.name)
            if assign(row, {**tool_columns(tool), "position": position}):
                self.parts.append(row)
                changed.append(tool.name)
        self.gone += stored.values()
        if names := sorted([*changed, *stored]):
            self.data["tools"] = names

    def set_hooks(self, hooks: Hooks) -> None:
        """The declarations, in order. A row whose entry is still there keeps its id, which runtimes know it by."""
        wanted = [*_class_hooks(hooks), *_event_handlers(hooks)]
        stored = list(Declaration.objects.filter(agent=self.agent))
        if _compact(stored) == _compact([Declaration(**columns) for columns in wanted]):
            return
        rows = _pair(wanted, stored)
        kept = {row.pk for row in rows if row is not None}
        self.gone += [row for row in stored if row.pk not in kept]
        for position, (columns, found) in enumerate(zip(wanted, rows, strict=True)):
            row = found or Declaration(agent=self.agent)
            if assign(row, {**columns, "position": position}):
                self.parts.append(row)
        self.data["hooks"] = [len(stored), len(wanted)]


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
