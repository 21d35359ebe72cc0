"""Agents as a config file says them: the draft, and what holds at once."""

from collections.abc import Callable
from typing import Any

from hooks_app import switches
from hooks_app.config.agents_schema import Agent as AgentEntry
from hooks_app.config.agents_schema import AgentFreshness, ClassHook, HandlerGroup, Tool
from hooks_app.config.lean import lean
from hooks_app.models import Action, Agent, AgentTool, Declaration

Object = dict[str, Any]


def write(row: Agent, members: set[str], note: Callable[[str], None]) -> Object:
    """One agent. An owner who is no member any more is left out."""
    owner = row.owner.username if row.owner else None
    if owner is not None and owner not in members:
        note(f"agent {row.slug}: the owner {owner} is left out, because they are no member")
        owner = None
    plain = {name: getattr(row, name) for name in AgentEntry.model_fields if hasattr(row, name)}
    freshness = {
        "revalidate_after_seconds": row.revalidate_after_seconds,
        "max_stale_seconds": row.max_stale_seconds,
    }
    return {
        "slug": row.slug,
        "name": row.name,
        **lean(
            AgentEntry,
            {
                **{name: value for name, value in plain.items() if name not in ("slug", "name")},
                "owner": owner,
                "halted": switches.is_halted(row) or None,
                "approval_policy": row.approval_policy or None,
                "approval_channels": [
                    item.channel.slug for item in row.approval_channel_rows.select_related("channel")
                ],
                "fallback_channels": [
                    item.channel.slug for item in row.fallback_channel_rows.select_related("channel")
                ],
                "tools": [tool(item) for item in row.tools.all()],
                "freshness": lean(AgentFreshness, freshness),
                "hooks": _hooks(row) or None,
            },
        ),
    }


def tool(row: Action | AgentTool) -> Object:
    """A connector's action, or an agent's tool."""
    plain = {
        name: getattr(row, name) for name in ("description", "writes", "requires_confirmation", "redact")
    }
    schema = None if row.schema is None else in_order(row.schema)
    return {"name": row.name, **lean(Tool, {**plain, "policy": row.policy or None, "schema": schema})}


def in_order(value: Any) -> Any:
    """JSON of an admin's own, its keys sorted: databases keep them in orders of their own."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [in_order(item) for item in value]
    return value


def _hooks(row: Agent) -> Object:
    rows = list(row.declarations.all())
    classes = [_class_hook(item) for item in rows if item.source == Declaration.Source.CLASS_HOOKS]
    events = _events([item for item in rows if item.source == Declaration.Source.EVENTS])
    return {key: value for key, value in (("class_hooks", classes), ("events", events)) if value}


def _class_hook(row: Declaration) -> Object | str:
    plain = {name: getattr(row, name) for name in ClassHook.model_fields}
    entry = {
        **plain,
        "tool_filter": row.tool_filter or None,
        "when": row.when or None,
        "on_error": row.on_error or None,
        "params": in_order(row.params),
    }
    if row.timeout_seconds is not None and row.timeout_seconds.is_integer():
        entry["timeout_seconds"] = int(row.timeout_seconds)
    written = lean(ClassHook, entry)
    return row.name if written.keys() == {"name"} else written


def _events(rows: list[Declaration]) -> Object:
    """Handlers in the shape of hooks.json. The numbers of groups may have gaps; the shape has none."""
    events: dict[str, dict[int, Object]] = {}
    for row in rows:
        groups = events.setdefault(row.event, {})
        group = groups.setdefault(
            row.group_index, {**lean(HandlerGroup, {"matcher": row.matcher}), "hooks": []}
        )
        group["hooks"].append(_type_first(row.handler))
    return {event: [groups[index] for index in sorted(groups)] for event, groups in events.items()}


def _type_first(handler: Object) -> Object:
    written: Object = in_order(handler)
    return {"type": written["type"], **written} if "type" in written else written
