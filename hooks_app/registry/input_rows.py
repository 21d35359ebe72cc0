"""Reads what a registry is built from, in a handful of queries."""

from typing import Any

from channels_app import channels
from channels_app.models import Channel
from hooks_app.models import Action, Agent, ApprovalPolicy, Connector, RuntimeInstance
from hooks_app.models.policies import default_grants
from hooks_app.registry import manifest_inputs
from hooks_app.registry.manifest_inputs import Inputs
from portal.lib.crypto import DecryptionFailed
from portal.lib.problems import Problem
from portal.models import Organization

# Tries to read one state of the organization before giving up; each takes milliseconds.
ATTEMPTS = 5


def read(agent: Agent, content: dict[str, Any]) -> tuple[int, Inputs]:
    """The organization's inputs version and everything that belongs to it.

    ``agent`` was read just now, with its organization, and is read again last: while its version stands still, what
    lies between is one state, also where a transaction sees the commits of others (PostgreSQL's READ COMMITTED).
    Raises ``Problem`` 503 when the organization never holds still.
    """
    for _ in range(ATTEMPTS):
        version = agent.organization.inputs_version
        inputs = _read(agent, content)
        agent = Agent.objects.select_related("organization").get(pk=agent.pk)
        if agent.organization.inputs_version == version:
            return version, inputs
    raise Problem(
        503, "registry_busy", "The organization's configuration is being changed; ask again.", retry_after=1
    )


def _read(agent: Agent, content: dict[str, Any]) -> Inputs:
    organization = agent.organization
    return Inputs(
        organization=organization.slug,
        organization_policy=organization.approval_policy,
        revalidate_after_seconds=_first(
            content["revalidate_after_seconds"], organization.revalidate_after_seconds
        ),
        max_stale_seconds=_first(content["max_stale_seconds"], organization.max_stale_seconds),
        agent_id=agent.pk,
        agent=agent.slug,
        content=content,
        actions=_read_actions(organization),
        connectors=frozenset(
            Connector.objects.filter(organization=organization).values_list("slug", flat=True)
        ),
        channels=_read_channels(organization, cards_needed=content["confirmation_mode"] == "channel_only"),
        policies=tuple(
            manifest_inputs.Policy(policy.slug, unavailable(policy))
            for policy in ApprovalPolicy.objects.filter(organization=organization)
        ),
        agents=frozenset(Agent.objects.filter(organization=organization).values_list("slug", flat=True)),
        announced=_read_announced(agent),
        time_zone=organization.time_zone,
    )


def _first(own: int | None, shared: int) -> int:
    return shared if own is None else own


def _read_actions(organization: Organization) -> tuple[manifest_inputs.Tool, ...]:
    return tuple(
        manifest_inputs.Tool(
            name=f"{action.connector.slug}__{action.name}",
            connector=action.connector.slug,
            writes=action.writes,
            requires_confirmation=action.requires_confirmation,
            policy=action.policy or None,
            redact=tuple(action.redact),
            path=f"connectors.{action.connector.slug}.actions.{action.name}",
            schema=action.schema if isinstance(action.schema, dict) else None,
        )
        for action in Action.objects.filter(connector__organization=organization)
        .select_related("connector")
        .order_by("connector__slug", "name")
    )


def _read_announced(agent: Agent) -> dict[str, dict[str, Any] | None]:
    """The tools of every runtime of the agent; of two schemas the one of who asked last."""
    found: dict[str, dict[str, Any] | None] = {}
    for tools in RuntimeInstance.objects.filter(agent=agent).values_list("tools", flat=True):
        for tool in tools:
            schema = tool.get("input_schema")
            found.setdefault(tool["name"], schema if isinstance(schema, dict) else None)
    return found


def _read_channels(organization: Organization, *, cards_needed: bool) -> tuple[manifest_inputs.Channel, ...]:
    """The channels; whether they can carry cards is found out only where the registry depends on it."""
    rows = Channel.objects.filter(organization=organization).order_by("slug").defer("config")
    return tuple(
        manifest_inputs.Channel(row.slug, row.type, row.enabled, _unusable(row) if cards_needed else None)
        for row in rows
    )


def _unusable(channel: Channel) -> str | None:
    try:
        return channels.usable(channel)
    except DecryptionFailed:
        return "no configured encryption key can read its configuration"


def unavailable(policy: ApprovalPolicy) -> tuple[str, ...]:
    """The options of ``policy`` that are stored, set to something, and carried out by a later release."""
    set_options = {
        "when": bool(policy.when),
        "allow_edit_args": policy.allow_edit_args,
        "remind_after_seconds": policy.remind_after_seconds is not None,
        "escalate_after_seconds": policy.escalate_after_seconds is not None,
        "escalate_to": bool(policy.escalate_to),
        "stages": bool(policy.stages),
        "grants.allowed": bool({**default_grants(), **policy.grants}["allowed"]),
        # 0 switches it off, which is what this release does anyway; the default does no harm either.
        "sticky_denial_seconds": policy.sticky_denial_seconds not in (0, 600),
    }
    return tuple(name for name, is_set in set_options.items() if is_set)
