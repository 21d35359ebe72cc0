"""The inverse of :mod:`hooks_app.config.apply`: the database as a config file, with every secret left out.

What has its default is left out too; lists come in the order that they have, everything else by name.
"""

from collections.abc import Callable, Iterable
from typing import Any

from channels_app import channels
from channels_app.models import Channel, Identity
from hooks_app import switches
from hooks_app.config import agents_export, placeholders, schema
from hooks_app.config.lean import lean
from hooks_app.config.people import RUNTIME
from hooks_app.models import Agent, ApprovalPolicy, Connector
from portal.lib.problems import Problem
from portal.models import Absence, Group, Invitation, Membership, Organization

Object = dict[str, Any]


def _say_nothing(line: str) -> None:
    """The default listener."""


def export(organizations: Iterable[Organization], *, note: Callable[[str], None] = _say_nothing) -> Object:
    """The document of ``organizations``. Secrets are ``${ORG_CHANNEL_FIELD}``, passwords are omitted.

    ``note`` is told, in a line each, what a config file can't say.
    """
    names = placeholders.Names()
    document: Object = placeholders.escape(
        {
            "apiVersion": "hookgate/v1",
            "organizations": [_organization(organization, names, note) for organization in organizations],
        }
    )
    return document


def _organization(row: Organization, names: placeholders.Names, note: Callable[[str], None]) -> Object:
    members = _members(row, note)
    present = set(Membership.objects.filter(organization=row).values_list("user__username", flat=True))
    freshness = {
        "revalidate_after_seconds": row.revalidate_after_seconds,
        "max_stale_seconds": row.max_stale_seconds,
    }
    return {
        "slug": row.slug,
        "name": row.name,
        **lean(
            schema.Organization,
            {
                "time_zone": row.time_zone,
                "read_only": row.read_only or None,
                "halted": switches.is_halted(row) or None,
                "approval_policy": row.approval_policy,
                "freshness": lean(schema.Freshness, freshness),
                "retention_days": row.retention_days,
                "members": members,
                "groups": _groups(row, present, note),
                "absences": _absences(row, present, note),
                "channels": [_channel(channel, names) for channel in _of(row, Channel)],
                "approval_policies": [
                    _policy(policy) for policy in _of(row, ApprovalPolicy).select_related("group")
                ],
                "connectors": [_connector(connector) for connector in _of(row, Connector)],
                "agents": [agents_export.write(agent, present, note) for agent in _of(row, Agent)],
            },
        ),
    }


def _of(organization: Organization, model: Any) -> Any:
    return model.objects.filter(organization=organization)


def _members(organization: Organization, note: Callable[[str], None]) -> list[Object]:
    rows = Membership.objects.filter(organization=organization).select_related("user")
    elsewhere = set(
        Membership.objects.filter(user__in=rows.values("user"))
        .exclude(organization=organization)
        .values_list("user_id", flat=True)
    )
    members = [
        {
            "user": row.user.username,
            **lean(schema.Member, {"email": row.user.email or None}),
            "role": row.role,
            **lean(
                schema.Member,
                {"existing": row.user_id in elsewhere, "identities": _identities(row, note) or None},
            ),
        }
        for row in rows
    ]
    # Nobody's name is told to be an account's by an invitation that nobody can accept.
    invited = [
        {
            "user": row.name,
            **lean(schema.Member, {"email": row.email or None}),
            "role": row.role,
            "existing": True,
        }
        for row in Invitation.objects.filter(organization=organization, user__isnull=False)
    ]
    return sorted([*members, *invited], key=lambda member: str(member["user"]))


def _identities(membership: Membership, note: Callable[[str], None]) -> list[Object]:
    rows = Identity.objects.filter(organization=membership.organization, user=membership.user)
    found = []
    for row in rows.select_related("app").order_by("app__type", "app__key", "external_id"):
        channel = row.app.channels.order_by("slug").first() if row.app else None
        if row.app and channel is None:
            note(
                f"{membership.user.username}: {row.external_id} is left out, because {row.app} has no channel"
            )
            continue
        slug = channel.slug if channel else RUNTIME
        found.append(
            {"channel": slug, **lean(schema.Identity, {"external_id": row.external_id, "name": row.name})}
        )
    return found


def _groups(organization: Organization, present: set[str], note: Callable[[str], None]) -> list[Object]:
    groups = []
    for row in _of(organization, Group):
        names = list(row.members.order_by("username").values_list("username", flat=True))
        for name in (name for name in names if name not in present):
            note(f"group {row.slug}: {name} is left out, because they are no member")
        groups.append({"slug": row.slug, "members": [name for name in names if name in present]})
    return groups


def _absences(organization: Organization, present: set[str], note: Callable[[str], None]) -> list[Object]:
    rows = (
        _of(organization, Absence)
        .select_related("user", "substitute")
        .order_by("first_day", "user__username", "pk")
    )
    found: dict[tuple[str, str], Object] = {}
    for row in rows:
        entry = {
            "user": row.user.username,
            "from": row.first_day.isoformat(),
            "until": row.last_day.isoformat(),
            "substitute": row.substitute.username,
        }
        key = (entry["user"], entry["from"])
        if key in found or not {entry["user"], entry["substitute"]} <= present:
            note(f"absence of {entry['user']} from {entry['from']}: left out, because a file can't say it")
            continue
        found[key] = entry
    return list(found.values())


def _channel(row: Channel, names: placeholders.Names) -> Object:
    return {
        "slug": row.slug,
        "type": row.type,
        **lean(schema.Channel, {"enabled": row.enabled, "language": row.language}),
        "config": _config(row, names),
    }


def _config(row: Channel, names: placeholders.Names) -> Object:
    try:
        defaults = {
            name: field.default
            for name, field in channels.adapter_class(row.type).config_model.model_fields.items()
        }
        secret = channels.secret_fields(row.type)
    except Problem:
        # Nobody here knows which of them are secrets, so all of them are.
        defaults, secret = {}, set(row.config)
    config: Object = {}
    for key, value in row.config.items():
        if value is None or (key in defaults and value == defaults[key]):
            continue
        if key in secret:
            config[key] = names.make(row.organization.slug, row.slug, key)
        else:
            config[key] = value
    return config


def _policy(row: ApprovalPolicy) -> Object:
    plain = {
        name: getattr(row, name)
        for name in schema.ApprovalPolicy.model_fields
        if name not in ("slug", "group")
    }
    return {
        "slug": row.slug,
        **lean(
            schema.ApprovalPolicy,
            {
                **plain,
                "when": row.when or None,
                "group": row.group.slug if row.group else None,
                "stages": [lean(schema.Stage, stage) for stage in row.stages],
                "grants": lean(schema.Grants, row.grants or {}),
            },
        ),
    }


def _connector(row: Connector) -> Object:
    return {"slug": row.slug, "actions": [agents_export.tool(action) for action in row.actions.all()]}
