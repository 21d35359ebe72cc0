"""Makes the database match a config file: everything in one transaction, or nothing at all.

For an object that the file names, every key has the value written or its default. Objects of an organization that it
doesn't name are left alone, unless ``prune`` says that the file is all there is. See ``docs/configuration.md``.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from pydantic import ValidationError

from hooks_app import publishing, registry
from hooks_app.config import agents, checks, errors, filling, people, pruning, schema, shared, switches
from hooks_app.config.changes import Change, Run, assign, verb_of
from hooks_app.config.errors import ConfigInvalid
from hooks_app.config.placeholders import Variables
from hooks_app.models import Agent
from portal import audit
from portal.lib.problems import FieldError
from portal.models import Organization


@dataclass(frozen=True)
class Applied:
    """What an apply did, and what it warns of: what is no error, but should be known, in the order of the file."""

    changes: tuple[Change, ...]
    warnings: tuple[FieldError, ...]


def apply(
    document: Any,
    *,
    actor: audit.Actor,
    dry_run: bool = False,
    prune: bool = False,
    variables: Variables | None = None,
) -> Applied:
    """Apply a document (plain data, as :mod:`hooks_app.config.reading` returns it).

    With ``dry_run`` everything is done and then undone. ``variables`` are those that the file may name, by default any
    but the portal's own. Raises :class:`ConfigInvalid` with everything at fault, and has then changed nothing.
    """
    with transaction.atomic():
        parsed, values = _validate(document, variables or Variables(), prune=prune)
        run = Run(actor=actor, prune=prune, values=values, warnings=list(values.warnings))
        for index, entry in enumerate(parsed.organizations):
            _write_organization(run, entry, f"organizations[{index}]")
        if run.errors:
            raise ConfigInvalid(errors.in_order(run.errors, document))
        if dry_run:
            transaction.set_rollback(True)
    return Applied(tuple(run.changes), tuple(errors.in_order(run.warnings, document)))


def _validate(document: Any, variables: Variables, *, prune: bool) -> tuple[schema.Document, filling.Values]:
    if not isinstance(document, dict):
        raise ConfigInvalid(
            [FieldError("(document)", "invalid", "must be an object with apiVersion and organizations")]
        )
    literal, found = filling.read_literals(document)
    parsed = None
    try:
        parsed = schema.Document.model_validate(literal)
    except ValidationError as error:
        found += errors.from_validation(error, schema.Document)
    values = filling.read(literal, variables)
    found += [*checks.check(literal, prune=prune), *values.errors]
    if found or parsed is None:
        raise ConfigInvalid(errors.in_order(_once_per_path(found), document))
    return parsed, values


def _once_per_path(found: list[FieldError]) -> list[FieldError]:
    first: dict[str, FieldError] = {}
    for error in found:
        first.setdefault(error.path, error)
    return list(first.values())


def _write_organization(run: Run, entry: schema.Organization, path: str) -> None:
    organization = _write_row(run, entry)
    for member in entry.members:
        people.write_member(run, organization, member)
    for group in entry.groups:
        people.write_group(run, organization, group)
    for absence in entry.absences:
        people.write_absence(run, organization, absence)
    shared.write_channels(run, organization, entry.channels, path)
    if run.errors:
        return  # what follows needs the channels
    people.write_identities(run, organization, entry.members, path)
    shared.write_policies(run, organization, entry.approval_policies)
    for connector in entry.connectors:
        shared.write_connector(run, organization, connector)
    rows = [agents.write_agent(run, organization, agent) for agent in entry.agents]
    if run.prune:
        pruning.prune(run, organization, entry, path)
    if organization.pk in run.stale:
        registry.inputs_changed(organization)
    places = {row.pk: f"{path}.agents[{index}]" for index, row in enumerate(rows)}
    for row in rows:
        _publish(run, row, places[row.pk])
    _warn(run, organization, places)


def _write_row(run: Run, entry: schema.Organization) -> Organization:
    row = Organization.objects.select_for_update().filter(slug=entry.slug).first()
    new = row is None
    row = row or Organization(slug=entry.slug)
    data = assign(
        row,
        {
            "name": entry.name or entry.slug,
            "time_zone": entry.time_zone,
            "approval_policy": entry.approval_policy,
            "retention_days": entry.retention_days,
            **entry.freshness.model_dump(),
        },
    )
    if not new and data.keys() - {"name", "time_zone", "retention_days"}:
        run.outdate(row)
    data |= switches.set_read_only(run, row, entry.read_only)
    data |= switches.set_halted(run, row, None, entry.halted)
    run.record(verb_of(new, data), "organization", entry.slug, row, row.pk, data)
    return row


def _publish(run: Run, agent: Agent, path: str) -> None:
    """Publish a draft that differs from what is served."""
    if not publishing.is_dirty(agent):
        return
    name = f"{agent.organization.slug}/{agent.slug}"
    if agent.protected:
        run.warn(
            path, f"{name} is protected; its draft waits until somebody publishes it", code="draft_waits"
        )
        return
    publishing.publish(agent=agent, actor=run.actor, comment="Applied from a config file")
    run.mark_changed("agent", name)


def _warn(run: Run, organization: Organization, places: dict[UUID, str]) -> None:
    """Say why registries can't be built: of the file's agents, and of others when something they share changed."""
    published = Agent.objects.filter(organization=organization, enabled=True, head__isnull=False)
    for agent in published:
        if agent.pk in places or organization.pk in run.stale:
            path = places.get(agent.pk, f"{organization.slug}/{agent.slug}")
            for error in registry.head(agent).errors:
                run.warn(f"{path}.{error['path']}", error["message"], code="registry_unbuildable")
