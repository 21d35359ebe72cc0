"""One SQL statement for what is asked thousands of times a minute, without the ORM's price for it.

Composing a join of seven tables costs the ORM a millisecond, and planning it costs PostgreSQL another, each time and
each more than the reading itself. Text is composed once, and a prepared statement is planned once per connection.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import psycopg
from django.db import connection
from django.db.models import Model

Row = tuple[Any, ...]


def read(statement: str, parameters: Mapping[str, Any]) -> list[Row]:
    """The rows of ``statement``, which names its parameters as ``%(name)s``: text, aware times and UUIDs.

    In the rows, times are aware, JSON is text, and for UUIDs there is :func:`as_uuid`. Raises Django's
    ``DatabaseError`` and its kinds.
    """
    adapted = {name: adapt(value) for name, value in parameters.items()}
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    if connection.vendor != "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(statement, adapted)
            return [tuple(map(_aware, row)) for row in cursor.fetchall()]
    # Django's cursors put the parameters into the text, which makes of every call a statement of its own.
    errors: AbstractContextManager[None] = connection.wrap_database_errors
    with errors, psycopg.Cursor(connection.connection) as prepared:
        return list(prepared.execute(statement, adapted, prepare=True).fetchall())


def write(objects: Sequence[Model], fields: Sequence[str]) -> None:
    """Store these fields of objects of one model that are in the database already, in one round trip.

    As ``bulk_update``, which composes one statement of as many branches as there are values, ten times as slowly as
    the server runs it. Raises ``KeyError`` for an unknown field, and Django's ``DatabaseError`` and its kinds.
    """
    if not objects:
        return
    meta = objects[0]._meta
    by_name = {field.name: field for field in meta.concrete_fields}
    columns = [
        *(by_name[name] for name in fields),
        *(field for field in by_name.values() if field.primary_key),
    ]
    names = [connection.ops.quote_name(str(column.column)) for column in columns]
    changes = ", ".join(f"{name} = %s" for name in names[:-1])
    table = connection.ops.quote_name(meta.db_table)
    statement = f"UPDATE {table} SET {changes} WHERE {names[-1]} = %s"  # noqa: S608
    rows = [
        [column.get_db_prep_save(getattr(one, column.attname), connection=connection) for column in columns]
        for one in objects
    ]
    with connection.cursor() as cursor:
        cursor.executemany(statement, rows)


def as_uuid(value: UUID | str) -> UUID:
    """A UUID of a row: SQLite's are text."""
    return value if isinstance(value, UUID) else UUID(value)


def adapt(value: Any) -> Any:
    """A parameter as this database's driver takes it."""
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    if isinstance(value, date):
        return connection.ops.adapt_datefield_value(value)
    if isinstance(value, UUID) and not connection.features.has_native_uuid_field:
        return value.hex
    return value


def _aware(value: Any) -> Any:
    """SQLite's times are naive, in UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
