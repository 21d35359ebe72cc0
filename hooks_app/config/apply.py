"""Makes the database match a config file: everything in one transaction, or nothing at all.

For an object that the file names, every key has the value written or its default. Objects of an organization that it
doesn't name are left alone, unless ``prune`` says that the file is all there is. See ``docs/configuration.md``.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from pydantic import ValidationError

from hooks_app.config import (
    agents,
    agents_schema,
    checks,
    errors,
    filling,
    halts,
    members,
    people,
    pruning,
    quorums,
    schema,
    shared,
)
from hooks_app.config.changes import Change, Run
from hooks_app.config.errors import ConfigInvalid
from hooks_app.config.placeholders import Variables
from hooks_app.governance import members as governance
from hooks_app.governance import tables
from hooks_app.models import Agent
from hooks_app.registry import draft_checks, heads, publishing
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
    allow_unbuildable: bool = False,
    variables: Variables | None = None,
) -> Applied:
    """Apply a document (plain data, as :mod:`hooks_app.config.reading` returns it).

    With ``dry_run`` everything is done and then undone. With ``allow_unbuildable`` a registry that can't be built may
    replace one that works. ``variables`` are those that the file may name, by default any but the portal's own. Raises
    :class:`ConfigInvalid` with everything at fault, and has then changed nothing.
    """
    with transaction.atomic():
        parsed, values = _validate(document, variables or Variables(), prune=prune)
        run = Run(
            actor=actor,
            prune=prune,
            values=values,
            organizations=frozenset(entry.slug for entry in parsed.organizations),
            warnings=list(values.warnings),
            allow_unbuildable=allow_unbuildable,
        )
        members.lock_accounts(parsed)
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
    working = _find_working(entry.slug)
    organization = _write_row(run, entry)
    had_admin = governance.has_admin(organization)
    for index, member in enumerate(entry.members):
        members.write_member(run, organization, member, f"{path}.members[{index}]")
    for index, group in enumerate(entry.groups):
        people.write_group(run, organization, group, f"{path}.groups[{index}]")
    for index, absence in enumerate(entry.absences):
        people.write_absence(run, organization, absence, f"{path}.absences[{index}]")
    shared.write_channels(run, organization, entry.channels, path)
    if run.errors:
        return  # what follows needs the channels
    people.write_identities(run, organization, entry.members, path)
    shared.write_policies(run, organization, entry.approval_policies)
    for connector in entry.connectors:
        shared.write_connector(run, organization, connector)
    rows = [
        agents.write_agent(run, organization, agent, f"{path}.agents[{index}]")
        for index, agent in enumerate(entry.agents)
    ]
    if run.prune:
        pruning.prune(run, organization, entry, path)
    members.check_addresses(run, organization, entry.members, path)
    members.keep_an_admin(run, organization, had_admin, path)
    quorums.check(run, organization, entry, path)
    if organization.pk in run.stale:
        heads.inputs_changed(organization)
    places = {
        row.pk: _Place(f"{path}.agents[{index}]", entry.agents[index]) for index, row in enumerate(rows)
    }
    for row in rows:
        _publish(run, row, places[row.pk])
    if not run.errors:
        _check_registries(run, organization, places, working)


@dataclass(frozen=True)
class _Place:
    """Where the file says what an agent is."""

    path: str
    entry: agents_schema.Agent

    def of(self, path: str) -> str:
        """The place in the file of what a registry calls ``path``."""
        if path.startswith("hooks.") and self.entry.model_config_json is not None:
            return f"{self.path}.model_config_json.{path}"
        return f"{self.path}.{path}"


def _find_working(slug: str) -> set[UUID]:
    """The agents whose registry is served before anything changes."""
    found = Agent.objects.filter(organization__slug=slug, enabled=True, head__isnull=False)
    return {agent.pk for agent in found.select_related("organization") if heads.works(agent)}


def _write_row(run: Run, entry: schema.Organization) -> Organization:
    row = Organization.objects.select_for_update().filter(slug=entry.slug).first()
    row = row or Organization(slug=entry.slug)
    columns = {
        "name": entry.name or entry.slug,
        "time_zone": entry.time_zone,
        "approval_policy": entry.approval_policy,
        "retention_days": entry.retention_days,
        **entry.freshness.model_dump(),
    }
    run.save(tables.ORGANIZATIONS, row, columns)
    switched = halts.set_read_only(run, row, entry.read_only)
    if halts.set_halted(run, row, None, entry.halted) or switched:
        run.mark_changed("organization", entry.slug)
    return row


def _publish(run: Run, agent: Agent, place: _Place) -> None:
    """Publish a draft that differs from what is served."""
    if not publishing.is_dirty(agent):
        return
    name = f"{agent.organization.slug}/{agent.slug}"
    unmatched = draft_checks.judge(agent, publishing.draft(agent)).findings.errors
    if unmatched:
        run.errors += [FieldError(place.of(item.path), item.code, item.message) for item in unmatched]
        return
    if agent.protected:
        run.warn(
            place.path,
            f"{name} is protected; its draft is kept and isn't published",
            code="draft_waits",
        )
        return
    publishing.publish(
        agent=agent, actor=run.actor, comment="Applied from a config file", allow_unbuildable=True
    )
    run.mark_changed("agent", name)


_LOST = " (the agent's registry works now and would be lost; --allow-unbuildable says that it is meant)"


def _check_registries(
    run: Run, organization: Organization, places: dict[UUID, _Place], working: set[UUID]
) -> None:
    """What keeps registries from being built, or matches nothing in them: of the file's agents, and of others when
    something they share changed. Losing a registry that worked is an error."""
    published = Agent.objects.filter(organization=organization, enabled=True, head__isnull=False)
    for agent in published.select_related("organization"):
        place = places.get(agent.pk)
        if place is None and organization.pk not in run.stale:
            continue
        head = heads.head(agent)
        lost = agent.pk in working and not run.allow_unbuildable
        for error in head.errors:
            path = place.of(error["path"]) if place else f"{organization.slug}/{agent.slug}.{error['path']}"
            if lost:
                run.errors.append(FieldError(path, error["code"], error["message"] + _LOST))
            else:
                run.warn(path, error["message"], code=error["code"])
        if place is not None:
            for warning in head.warnings:
                run.warn(place.of(warning["path"]), warning["message"], code=warning["code"])
