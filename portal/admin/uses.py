"""What names a row from elsewhere: such a row is not deleted. The layers above say where to look."""

from collections.abc import Callable
from typing import Any

from django.db.models import Model

_FINDERS: dict[type[Model], Callable[[Any], list[str]]] = {}


def declare(model: type[Model], find: Callable[[Any], list[str]]) -> None:
    """Ask ``find``, which returns what names a row, in words, before a row of ``model`` is deleted."""
    _FINDERS[model] = find


def of(row: Model) -> list[str]:
    """What names ``row``, in words."""
    find = _FINDERS.get(type(row))
    return find(row) if find else []
