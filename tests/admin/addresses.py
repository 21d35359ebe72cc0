"""Every address of the admin site, read from its registry, so that a new screen can't be forgotten."""

from collections.abc import Iterator
from typing import Any

from django.db.models import Model
from django.urls import URLPattern

from portal.admin.site import site
from tests.admin.tenant import Tenant


def screens() -> list[tuple[type[Model], Any]]:
    """The models that have a screen, with it."""
    return sorted(site._registry.items(), key=lambda item: item[0]._meta.label)


def of_list(screen: Any) -> str:
    """The list of a screen."""
    return f"/admin/{screen.opts.app_label}/{screen.opts.model_name}/"


def of_row(screen: Any, row: Model, action: str = "change") -> str:
    """A page of one row."""
    return f"{of_list(screen)}{row.pk}/{action}/"


def row_actions(screen: Any) -> list[str]:
    """What can follow a row's id: ``change``, ``delete``, ``history`` and the screen's own buttons."""
    return sorted({tail for tail in _tails(screen) if tail})


def _tails(screen: Any) -> Iterator[str]:
    for pattern in screen.get_urls():
        if not isinstance(pattern, URLPattern):
            continue
        route = str(pattern.pattern)
        if route.startswith("<path:object_id>/"):
            yield route.removeprefix("<path:object_id>/").strip("/")


def of_tenant(tenant: Tenant) -> Iterator[tuple[Any, str, str]]:
    """``(screen, action, address)`` of every page that shows one of the tenant's rows."""
    for model, screen in screens():
        for action in row_actions(screen):
            yield screen, action, of_row(screen, tenant.row(model), action)
