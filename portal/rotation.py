"""Replaces the encryption key: every secret in the database, encrypted anew with the first key.

The columns are found by their type, so one that a later release adds is not forgotten.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import models, transaction
from django.db.models import F, Value
from django.db.models.functions import Cast

from portal.lib import crypto
from portal.lib.fields import EncryptedJSONField

BATCH = 500


@dataclass(frozen=True)
class Column:
    """One encrypted column."""

    model: type[models.Model]
    field: str

    def __str__(self) -> str:
        return f"{self.model._meta.label}.{self.field}"


class Unreadable(Exception):
    """Secrets that no configured key can read. ``rows`` are pairs of a column and the row's primary key."""

    def __init__(self, rows: list[tuple[Column, Any]]) -> None:
        super().__init__(f"{len(rows)} secrets can't be read with any of the configured keys")
        self.rows = rows


def columns() -> list[Column]:
    """Every encrypted column of every installed app, sorted by name."""
    found = [
        Column(model, field.name)
        for model in apps.get_models()
        for field in model._meta.local_fields
        if isinstance(field, EncryptedJSONField)
    ]
    return sorted(found, key=str)


def rotate() -> dict[Column, int]:
    """Encrypt every secret with the first key, in one transaction. Returns how many each column had.

    Raises :class:`Unreadable` when a row can't be read; then nothing has changed.
    """
    counts: dict[Column, int] = {}
    unreadable: list[tuple[Column, Any]] = []
    with transaction.atomic():
        for column in columns():
            counts[column] = 0
            for key, token in _tokens(column):
                try:
                    rotated = crypto.rotate(token)
                except crypto.DecryptionFailed:
                    unreadable.append((column, key))
                    continue
                # As plain text: the field itself would encrypt the token once more.
                value = Value(rotated, output_field=models.TextField())
                column.model._base_manager.filter(pk=key).update(**{column.field: value})
                counts[column] += 1
        if unreadable:
            raise Unreadable(unreadable)
    return counts


def _tokens(column: Column) -> Iterator[tuple[Any, str]]:
    """Primary key and stored text of every row with a secret, in batches; the rows stay locked until the commit."""
    rows = (
        column.model._base_manager.select_for_update()
        .filter(**{f"{column.field}__isnull": False})
        .annotate(stored_token=Cast(F(column.field), models.TextField()))
        .order_by("pk")
        .values_list("pk", "stored_token")
    )
    batch = list(rows[:BATCH])
    while batch:
        yield from batch
        batch = list(rows.filter(pk__gt=batch[-1][0])[:BATCH])
