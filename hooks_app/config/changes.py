"""What one apply does, as it does it: the lines that it prints, the audit events, what must be rebuilt afterwards."""

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Model

from hooks_app.config.filling import Values
from portal import audit
from portal.lib.problems import FieldError, Problem
from portal.models import Organization

# A longer value is left out of the audit event, which says that it changed.
_LONGEST_VALUE = 300


@dataclass(frozen=True)
class Change:
    """One line of an apply. ``verb`` is created, changed, unchanged or pruned; ``path`` is like ``acme/oa/pay``."""

    verb: str
    kind: str
    path: str

    def __str__(self) -> str:
        return f"{self.verb} {self.kind} {self.path}"

    @property
    def counts(self) -> bool:
        """Whether the database differs by it."""
        return self.verb != "unchanged"


@dataclass
class Run:
    """The state of one apply."""

    actor: audit.Actor
    prune: bool
    values: Values
    # Slugs of the file's organizations, and the accounts that it has made.
    organizations: frozenset[str] = frozenset()
    made: set[UUID] = field(default_factory=set)
    changes: list[Change] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldError] = field(default_factory=list)
    allow_unbuildable: bool = False
    # Policies whose quorum or whose people the file sets anew, and who was taken out of each group.
    requorumed: set[UUID] = field(default_factory=set)
    taken_out: dict[UUID, set[str]] = field(default_factory=dict)
    # Organizations whose shared objects changed: every registry in them is out of date.
    stale: set[UUID] = field(default_factory=set)

    def say(self, verb: str, kind: str, path: str) -> None:
        """One line."""
        self.changes.append(Change(verb, kind, path))

    def mark_changed(self, kind: str, path: str) -> None:
        """An object that was found unchanged has changed after all."""
        for index, change in enumerate(self.changes):
            if change == Change("unchanged", kind, path):
                self.changes[index] = Change("changed", kind, path)

    def record(
        self,
        verb: str,
        kind: str,
        path: str,
        organization: Organization,
        row_id: object,
        data: dict[str, Any],
    ) -> None:
        """One line and, unless nothing changed, its audit event. ``data`` holds no secret."""
        self.say(verb, kind, path)
        if verb != "unchanged":
            audit.append(
                organization=organization,
                actor=self.actor,
                action=f"{kind}.{verb}",
                kind=kind,
                id=row_id,
                name=path,
                data=data,
            )

    def refuse(self, path: str, problem: Problem) -> None:
        """Keep what a writer found wrong with the object at ``path`` of the file."""
        if not problem.errors:
            self.errors.append(FieldError(path, problem.code, problem.detail))
        for error in problem.errors:
            self.errors.append(FieldError(f"{path}.{error.path}", error.code, error.message))

    def warn(self, path: str, message: str, *, code: str) -> None:
        """Keep what isn't an error but should be known: of the place ``path`` of the file, or of an object's path."""
        self.warnings.append(FieldError(path, code, message))

    def outdate(self, organization: Organization) -> None:
        """Say that something changed that every registry of the organization is built from."""
        self.stale.add(organization.pk)


def assign(row: Model, values: dict[str, Any]) -> dict[str, Any]:
    """Set ``values`` on ``row`` and save it if any differs, or if it is new.

    Returns ``{column: [before, after]}`` as JSON for the audit event; empty when nothing changed.
    """
    new = row._state.adding
    differing = [name for name, value in values.items() if new or _differs(getattr(row, name), value)]
    data = {name: [None if new else show(getattr(row, name)), show(values[name])] for name in differing}
    for name in differing:
        setattr(row, name, values[name])
    if new:
        row.save(force_insert=True)
    elif differing:
        row.save(update_fields=differing)
    return data


def _differs(stored: Any, wanted: Any) -> bool:
    # An admin's form leaves an empty text where a file has nothing.
    return bool(stored != wanted and not (wanted is None and stored == ""))


def show(value: Any) -> Any:
    """``value`` as an audit event may hold it: small JSON."""
    if isinstance(value, Model):
        return str(value)
    try:
        written = json.dumps(value, ensure_ascii=False)
    except TypeError:
        return str(value)
    return value if len(written) <= _LONGEST_VALUE else f"({len(written)} characters)"


def verb_of(new: bool, data: dict[str, Any]) -> str:
    """The verb for a row that was made, or that changed by ``data``."""
    return "created" if new else "changed" if data else "unchanged"
