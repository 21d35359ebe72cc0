"""Keyset pages, newest first: ``{"results": [...], "next": CURSOR|null}``.

A cursor is the sort key of the last row, signed. Rows that arrive meanwhile are never shown twice and move nothing,
and page 1000 costs what page 1 costs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

from django.core import signing
from django.db.models import Model, Q, QuerySet
from typing_extensions import TypedDict

from portal.lib.problems import FieldError, invalid

M = TypeVar("M", bound=Model)
R = TypeVar("R")

PAGE_SIZE = 50
LARGEST_PAGE = 200


class Page(TypedDict, Generic[R]):
    """A part of a list, newest first. ``next`` is the cursor of the next one."""

    results: list[R]
    next: str | None


@dataclass(frozen=True)
class Keyset(Generic[M]):
    """A list that is sorted by ``-field, -id``. ``name`` keeps the cursors of different lists apart."""

    name: str
    field: str

    def page(
        self,
        rows: QuerySet[M],
        *,
        cursor: str | None,
        limit: int,
        represent: Callable[[list[M]], list[R]],
    ) -> Page[R]:
        """One page of at most ``limit`` rows. Raises 400 ``invalid`` for a cursor that this list did not make."""
        if cursor is not None:
            rows = rows.filter(self._after(cursor))
        found = list(rows.order_by(f"-{self.field}", "-id")[: limit + 1])
        more, found = len(found) > limit, found[:limit]
        return {"results": represent(found), "next": self._cursor(found[-1]) if more else None}

    def _cursor(self, row: M) -> str:
        at: datetime = getattr(row, self.field)
        return signing.dumps([at.isoformat(), str(row.pk)], salt=f"cursor:{self.name}")

    def _after(self, cursor: str) -> Q:
        try:
            at, key = signing.loads(cursor, salt=f"cursor:{self.name}")
            moment, pk = datetime.fromisoformat(at), UUID(key)
        except (signing.BadSignature, ValueError, TypeError):
            raise invalid(
                FieldError("cursor", "invalid", "use the `next` of the page before, or leave it out")
            ) from None
        return Q(**{f"{self.field}__lt": moment}) | Q(**{self.field: moment, "id__lt": pk})
