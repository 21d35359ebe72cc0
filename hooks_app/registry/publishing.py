"""Drafts and publications of agents: the only writer of :class:`hooks_app.models.Publication`.

A publication is the whole draft, copied; what runtimes are served is built from the newest one. A rollback publishes
the content of an earlier revision again; the draft stays what it was.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Model
from hookgate.events import HookEvent

from hooks_app.models import (
    Agent,
    AgentTool,
    ApprovalChannel,
    Declaration,
    FallbackChannel,
    Publication,
    RegistryHead,
    RegistryRevision,
)
from hooks_app.registry import draft_checks, heads, manifest_warnings
from portal import audit
from portal.lib import clock
from portal.lib.problems import FieldError, Problem, not_found
from portal.models import User
from portal.wakeups import wakeups

_EVENT_ORDER = {event.value: index for index, event in enumerate(HookEvent)}
SETTINGS = (
    "confirmation_mode", "require_confirmation_for_all", "approval_policy", "unlisted_tools", "may_delegate_to",
    "max_pending", "barrier", "revalidate_after_seconds", "max_stale_seconds",
)  # fmt: skip


def draft(agent: Agent) -> dict[str, Any]:
    """The draft as JSON: settings, ``approval_channels`` and ``fallback_channels`` (slugs), ``tools``, ``class_hooks``,
    ``events``. Lists are in declared order, events in the order of the hook points."""
    return drafts([agent])[agent.pk]


def drafts(agents: Sequence[Agent]) -> dict[UUID, dict[str, Any]]:
    """The draft of each agent, by its id; four statements however many there are."""
    approval = _by_agent(ApprovalChannel, agents, "position", "channel__slug", related=("channel",))
    fallback = _by_agent(FallbackChannel, agents, "position", "channel__slug", related=("channel",))
    tools = _by_agent(AgentTool, agents, "position", "name")
    declared = _by_agent(Declaration, agents)
    return {
        agent.pk: _content(
            agent,
            approval[agent.pk],
            fallback[agent.pk],
            tools[agent.pk],
            sorted(declared[agent.pk], key=_place),
        )
        for agent in agents
    }


def _by_agent(
    model: type[Model], agents: Sequence[Agent], *order: str, related: Sequence[str] = ()
) -> dict[UUID, list[Any]]:
    found: dict[UUID, list[Any]] = defaultdict(list)
    rows: Any = model._default_manager.filter(agent__in=agents).order_by(*order)
    for row in rows.select_related(*related) if related else rows:
        found[row.agent_id].append(row)
    return found


def _content(
    agent: Agent,
    approval: Sequence[ApprovalChannel],
    fallback: Sequence[FallbackChannel],
    tools: Sequence[AgentTool],
    declarations: Sequence[Declaration],
) -> dict[str, Any]:
    content: dict[str, Any] = {name: getattr(agent, name) for name in SETTINGS}
    content["approval_policy"] = agent.approval_policy or None
    content["approval_channels"] = [row.channel.slug for row in approval]
    content["fallback_channels"] = [row.channel.slug for row in fallback]
    content["tools"] = [_tool(tool) for tool in tools]
    content["class_hooks"] = [
        _class_hook(row) for row in declarations if row.source == Declaration.Source.CLASS_HOOKS
    ]
    content["events"] = _events([row for row in declarations if row.source == Declaration.Source.EVENTS])
    return content


def _place(row: Declaration) -> tuple[int, str, str]:
    """Where a declaration stands. Content settles equal positions: ids differ between databases."""
    content = {name: value for name, value in _common(row).items() if name != "id"}
    rest = [row.event, row.group_index, row.matcher, row.handler, row.params, content]
    return row.position, row.name, json.dumps(rest, sort_keys=True)


def _tool(tool: AgentTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "writes": tool.writes,
        "requires_confirmation": tool.requires_confirmation,
        "policy": tool.policy or None,
        "redact": tool.redact,
        "schema": tool.schema,
    }


def _common(row: Declaration) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "tool_filter": row.tool_filter or None,
        "when": row.when or None,
        "priority": row.priority,
        "on_error": row.on_error or None,
        "timeout_seconds": row.timeout_seconds,
        "enabled": row.enabled,
        "mode": row.mode,
    }


def _class_hook(row: Declaration) -> dict[str, Any]:
    content = {**_common(row), "name": row.name, "params": row.params}
    # Only where it says something: older publications haven't it, and a draft equals them.
    return {**content, "allow_unmatched": True} if row.allow_unmatched else content


def _events(rows: list[Declaration]) -> list[dict[str, Any]]:
    """Handlers with the place they have in the hooks.json shape; groups are numbered anew, so that gaps don't show."""
    rows = sorted(
        rows, key=lambda row: (_EVENT_ORDER.get(row.event, len(_EVENT_ORDER)), row.event, row.group_index)
    )
    content: list[dict[str, Any]] = []
    before: Declaration | None = None
    group = index = 0
    for row in rows:
        if before is None or row.event != before.event:
            group = index = 0
        elif row.group_index != before.group_index:
            group, index = group + 1, 0
        else:
            index += 1
        content.append(
            {
                **_common(row),
                "event": row.event,
                "group": group,
                "index": index,
                "matcher": row.matcher,
                "handler": row.handler,
            }
        )
        before = row
    return content


def is_dirty(agent: Agent) -> bool:
    """Whether the draft differs from what is published; rows that were written again with other ids don't count."""
    return agent.pk in dirty([agent])


def dirty(agents: Sequence[Agent]) -> set[UUID]:
    """Those of the agents, by id, whose draft differs from what is published; five statements however many."""
    heads = RegistryHead.objects.filter(agent__in=agents).select_related("publication")
    published = {head.agent_id: _without_ids(head.publication.content) for head in heads}
    return {pk for pk, content in drafts(agents).items() if _without_ids(content) != published.get(pk)}


def _without_ids(content: dict[str, Any]) -> dict[str, Any]:
    stripped = dict(content)
    for key in ("class_hooks", "events"):
        stripped[key] = [
            {name: value for name, value in item.items() if name != "id"} for item in content[key]
        ]
    return stripped


def publish(
    *,
    agent: Agent,
    actor: audit.Actor,
    user: User | None = None,
    comment: str = "",
    allow_unbuildable: bool = False,
) -> Publication:
    """Make the draft what holds, at once. An unchanged draft is not published again: its publication is returned.

    Where no registry works now, a draft that can't be built is published too, and the agent is refused its registry
    until that is repaired. Raises ``Problem`` 409 ``not_available`` for a protected agent, 422 ``unmatched_gate`` for
    a gate entry that is new and matches no known tool, 422 ``registry_unbuildable`` where a registry that works would
    be lost, unless ``allow_unbuildable`` says that it is meant.
    """
    with transaction.atomic():
        # One publication at a time, so that two of them can't mix their drafts. NO KEY: the builder, which holds the
        # head's lock, refers to the agent.
        locked = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
        head = RegistryHead.objects.filter(agent=locked).select_related("publication").first()
        content = draft(locked)
        if head is not None and _without_ids(content) == _without_ids(head.publication.content):
            return head.publication
        _check(locked, content, allow_unbuildable=allow_unbuildable)
        return _publish(
            locked, content, actor=actor, user=user, comment=comment, action="agent.published", data={}
        )


def _check(
    agent: Agent, content: dict[str, Any], *, was_published: bool = False, allow_unbuildable: bool = False
) -> None:
    judged = draft_checks.judge(agent, content)
    if judged.findings.errors and not was_published:
        raise _refused(manifest_warnings.UNMATCHED_GATE, judged.findings.errors)
    if judged.built.errors and not allow_unbuildable and heads.works(agent):
        raise _refused("registry_unbuildable", judged.built.errors)


def _refused(code: str, errors: Sequence[FieldError]) -> Problem:
    detail = "; ".join(f"{error.path}: {error.message}" for error in errors)
    return Problem(422, code, f"Nothing was published, and what is in force stays: {detail}", errors=errors)


def rollback(
    *, agent: Agent, number: int, actor: audit.Actor, user: User | None = None, comment: str = ""
) -> Publication:
    """Publish again what revision ``number`` was built from. Shared objects keep their present state.

    Raises ``Problem`` 404 when the agent has no such revision, 409 ``not_available`` for a protected agent, 422
    ``registry_unbuildable`` where a registry that works would be lost.
    """
    with transaction.atomic():
        locked = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
        revision = (
            RegistryRevision.objects.filter(agent=locked, number=number).select_related("publication").first()
        )
        if revision is None:
            raise not_found()
        _check(locked, revision.publication.content, was_published=True)
        return _publish(
            locked,
            revision.publication.content,
            actor=actor,
            user=user,
            comment=comment or f"Rollback to revision {number}",
            action="agent.rolled_back",
            data={"revision": number},
        )


def _publish(
    agent: Agent,
    content: dict[str, Any],
    *,
    actor: audit.Actor,
    user: User | None,
    comment: str,
    action: str,
    data: dict[str, Any],
) -> Publication:
    if agent.protected:
        raise Problem(
            409,
            "not_available",
            f"{agent.slug} is protected: its draft is kept and isn't published. Switch protected off to publish it.",
        )
    publication = Publication.objects.create(
        agent=agent,
        content=content,
        author=user,
        author_name=actor.name[:200],
        comment=comment[:500],
        created_at=clock.now(),
    )
    RegistryHead.objects.update_or_create(agent=agent, defaults={"publication": publication})
    audit.append(
        organization=agent.organization,
        actor=actor,
        action=action,
        kind="agent",
        id=agent.pk,
        name=agent.slug,
        data={**data, "comment": publication.comment, "publication": str(publication.pk)},
    )
    wakeups.publish_on_commit(f"agent:{agent.pk}")
    return publication
