"""Takes away what the file's organizations no longer name. What has history is switched off instead."""

from typing import Any

from channels_app import channels
from channels_app.models import Channel
from hooks_app import keys
from hooks_app.config import people, schema
from hooks_app.config.changes import Run
from hooks_app.governance import leaving, members, tables
from hooks_app.governance.tables import Table
from hooks_app.models import (
    Agent,
    ApprovalChannel,
    ApprovalPolicy,
    Connector,
    FallbackChannel,
)
from portal.lib.problems import Problem
from portal.models import Absence, Group, Invitation, Membership, Organization


def prune(run: Run, organization: Organization, entry: schema.Organization, path: str) -> None:
    """Everything that ``entry`` doesn't name, what refers to others first."""
    _prune_agents(run, organization, {agent.slug for agent in entry.agents})
    connectors = {row.slug for row in entry.connectors}
    _prune_rows(run, organization, tables.CONNECTORS, Connector, connectors)
    policies = {row.slug for row in entry.approval_policies}
    _prune_rows(run, organization, tables.POLICIES, ApprovalPolicy, policies)
    _prune_absences(run, organization, {(row.user, row.first_day) for row in entry.absences})
    _prune_rows(run, organization, tables.GROUPS, Group, {group.slug for group in entry.groups})
    _prune_members(run, organization, {member.user for member in entry.members})
    _prune_channels(run, organization, {channel.slug for channel in entry.channels}, path)


def _prune_agents(run: Run, organization: Organization, named: set[str]) -> None:
    for agent in Agent.objects.filter(organization=organization).exclude(slug__in=named):
        gone = tables.retire(agent, actor=run.actor, outdate=run.outdate)
        run.say("pruned" if gone else "unchanged", "agent", tables.AGENTS.name(agent))


def _prune_rows(run: Run, organization: Organization, table: Table, model: Any, named: set[str]) -> None:
    for row in model.objects.filter(organization=organization).exclude(slug__in=named):
        run.delete(table, row)


def _prune_channels(run: Run, organization: Organization, named: set[str], path: str) -> None:
    for channel in Channel.objects.filter(organization=organization).exclude(slug__in=named):
        name = f"{organization.slug}/{channel.slug}"
        kept = _has_history(channel)
        if kept and not channel.enabled:
            run.say("unchanged", "channel", name)
            continue
        run.say("pruned", "channel", name)
        run.outdate(organization)
        try:
            _take_away(run, channel, kept)
        except Problem as problem:
            run.refuse(f"{path}.channels", problem)


def _has_history(channel: Channel) -> bool:
    referring = (
        channel.deliveries,
        channel.interactions,
        ApprovalChannel.objects.filter(channel=channel),
        FallbackChannel.objects.filter(channel=channel),
    )
    return any(rows.exists() for rows in referring)


def _take_away(run: Run, channel: Channel, kept: bool) -> None:
    if not kept:
        channels.remove(channel, actor=run.actor)
        return
    channels.save(
        organization=channel.organization,
        slug=channel.slug,
        type=channel.type,
        enabled=False,
        language=channel.language,
        config=channel.config,
        channel=channel,
        actor=run.actor,
    )


def _prune_absences(run: Run, organization: Organization, named: set[tuple[str, Any]]) -> None:
    for row in Absence.objects.filter(organization=organization).select_related("organization", "user"):
        if (row.user.username, row.first_day) not in named:
            run.delete(tables.ABSENCES, row)


def _prune_members(run: Run, organization: Organization, named: set[str]) -> None:
    """Memberships and what hangs on them. The portal user stays: other organizations and records may know them."""
    rows = Membership.objects.filter(organization=organization).exclude(user__username__in=named)
    for row in rows.select_related("organization", "user"):
        # Whether an admin is left is judged when the whole file has been written.
        left = leaving.leave(row, actor=run.actor, keep_admin=False, action="member.pruned")
        for identity in left.identities:
            run.say("pruned", "identity", people.identity_path(identity))
        for key in left.keys:
            run.say("pruned", "key", f"{organization.slug}/{keys.name(key)}")
        for token in left.tokens:
            run.say("pruned", "token", f"{token.user.username}/{token.label or 'token'}")
        run.say("pruned", "member", f"{organization.slug}/{row.user.username}")
    for invitation in Invitation.objects.filter(organization=organization).exclude(name__in=named):
        members.withdraw(invitation, actor=run.actor)
        run.say("pruned", "member", f"{organization.slug}/{invitation.name} (invited)")
