"""Queries that the ORM composes once, for what nearly every request reads.

To write the SQL of a join of fifty columns costs the ORM a millisecond each time, twice as much as to send it and to
make objects of its rows. The text is kept here; only its values change.
"""

import copy
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Expression, Model, QuerySet
from django.db.models.sql.compiler import SQLCompiler

from portal.lib import statements

M = TypeVar("M", bound=Model)

# SQLite takes 500 in one compound statement.
MOST_PARTS = 200


class Parameter(Expression):
    """A value of a filter that is given when the query runs: text, a number, an aware time or a UUID."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def as_sql(self, *_args: Any, **_more: Any) -> tuple[str, Any]:
        """Its place in the text; the value comes later."""
        return "%s", [self]


class Composed(Generic[M]):
    """A queryset with :class:`Parameter` in its filters. What it prefetches is read as always."""

    def __init__(self, queryset: QuerySet[M]) -> None:
        self._queryset = queryset
        self._compiler: SQLCompiler | None = None
        self._sql = ""
        self._places: Sequence[Any] = ()

    def rows(self, **values: Any) -> list[M]:
        """The rows for these values, each named like its parameter. Raises ``KeyError`` when one is missing."""
        compiler = self._bind(values)
        queryset = self._queryset.all()
        # The queryset asks its query for the compiler, and all else is as for any other.
        queryset.query.get_compiler = lambda *_args, **_more: compiler  # type: ignore[method-assign]
        return list(queryset)

    def first(self, **values: Any) -> M | None:
        """The first of the rows. The query should not find many."""
        return next(iter(self.rows(**values)), None)

    def text(self, **values: Any) -> tuple[str, tuple[Any, ...]]:
        """The statement and its parameters for these values, to be a part of another one."""
        self._compose()
        return self._sql, tuple(
            statements.adapt(values[place.name]) if isinstance(place, Parameter) else place
            for place in self._places
        )

    def _compose(self) -> SQLCompiler:
        if self._compiler is None:
            composed = self._queryset.query.clone().get_compiler(using=self._queryset.db)
            self._sql, self._places = composed.as_sql()
            self._compiler = composed
        return self._compiler

    def _bind(self, values: dict[str, Any]) -> SQLCompiler:
        bound = copy.copy(self._compose())
        _, given = self.text(**values)
        bound.connection = connections[self._queryset.db]  # each thread has its own
        bound.as_sql = lambda *_args, **_more: (self._sql, given)  # type: ignore[method-assign]
        return bound


def in_one(
    parts: Sequence[tuple[Composed[Any], dict[str, Any]]], columns: str
) -> list[list[tuple[Any, ...]]]:
    """What each query finds for its values, as rows of ``columns`` (SQL over its columns), in one statement for up to
    ``MOST_PARTS``."""
    found: list[list[tuple[Any, ...]]] = [[] for _ in parts]
    for start in range(0, len(parts), MOST_PARTS):
        texts, parameters = [], list[Any]()
        for place, (composed, values) in enumerate(parts[start : start + MOST_PARTS], start):
            text, given = composed.text(**values)
            texts.append(f"SELECT {place}, {columns} FROM ({text}) AS part")  # noqa: S608  # text that the ORM composed
            parameters += given
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute(" UNION ALL ".join(texts), parameters)
            for place, *row in cursor.fetchall():
                found[place].append(tuple(row))
    return found


def remember(row: Model, relation: str, related: Sequence[Model]) -> None:
    """Let ``row.RELATION.all()`` be ``related``, which the caller has in hand, as a prefetch would."""
    known: QuerySet[Model] = getattr(row, relation).all()
    # Where a queryset keeps what it has read.
    known._result_cache = list(related)
    known._prefetch_done = True  # type: ignore[attr-defined]  # the stubs leave it out
    held: dict[str, Any] = row.__dict__.setdefault("_prefetched_objects_cache", {})
    held[relation] = known


def remembers(row: Model, relation: str) -> bool:
    """Whether ``row.RELATION.all()`` costs nothing."""
    return relation in row.__dict__.get("_prefetched_objects_cache", {})
