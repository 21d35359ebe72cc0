"""What one apply does, as it does it: the lines that it prints, the audit events, what must be rebuilt afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Model

from hooks_app.config.filling import Values
from hooks_app.governance.tables import Table
from portal import audit
from portal.lib.problems import FieldError, Problem
from portal.models import Organization


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

    def save(
        self,
        table: Table,
        row: Model,
        values: dict[str, Any],
        *,
        more: dict[str, Any] | None = None,
        parts: Sequence[Model] = (),
        gone: Sequence[Model] = (),
    ) -> None:
        """Set ``values`` on ``row``, have its table write what differs, and say it in one line.

        ``more`` says what else changed of it, in its parts; see :meth:`hooks_app.governance.tables.Table.save`.
        """
        data = assign(row, values)
        verb = table.save(
            row,
            {**data, **(more or {})},
            actor=self.actor,
            columns=data,
            parts=parts,
            gone=gone,
            outdate=self.outdate,
        )
        self.say(verb, table.kind, table.name(row))

    def delete(self, table: Table, row: Model) -> None:
        """Have its table delete a row that the file no longer names, and say it."""
        self.say("pruned", table.kind, table.name(row))
        table.delete(row, actor=self.actor, verb="pruned", outdate=self.outdate)

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
    """Set ``values`` on ``row``. Returns ``{column: [before, after]}`` of those that differ, all of a new row."""
    new = row._state.adding
    differing = [name for name, value in values.items() if new or _differs(getattr(row, name), value)]
    data = {
        name: [None if new else audit.show(getattr(row, name)), audit.show(values[name])]
        for name in differing
    }
    for name in differing:
        setattr(row, name, values[name])
    return data


def _differs(stored: Any, wanted: Any) -> bool:
    # An admin's form leaves an empty text where a file has nothing.
    return bool(stored != wanted and not (wanted is None and stored == ""))
