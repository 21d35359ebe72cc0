"""The only writer of :class:`portal.models.AuditEvent`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Model

from portal.lib import clock
from portal.models import AuditEvent, Organization, User

# A longer value is left out of an event, which says that it changed.
_LONGEST_VALUE = 300


@dataclass(frozen=True)
class Actor:
    """Who did it. ``kind`` is ``user``, ``runtime``, ``identity`` (an unbound account), ``system`` or ``shell``."""

    kind: str
    id: str = ""
    name: str = ""


SYSTEM = Actor("system", name="system")
SHELL = Actor("shell", name="shell")


def person(user: User) -> Actor:
    """The actor for a portal user."""
    return Actor("user", str(user.pk), user.username)


def show(value: Any) -> Any:
    """``value`` of a column as an event may hold it: small JSON."""
    if isinstance(value, Model):
        return str(value)
    try:
        written = json.dumps(value, ensure_ascii=False)
    except TypeError:
        return str(value)
    return value if len(written) <= _LONGEST_VALUE else f"({len(written)} characters)"


def append(
    *,
    organization: Organization | None,
    actor: Actor,
    action: str,
    kind: str,
    id: object,
    name: str = "",
    data: dict[str, Any] | None = None,
) -> AuditEvent:
    """Record one event; call it in the transaction that it records.

    ``action`` is ``noun.verb`` (``confirmation.approved``), ``kind``, ``id`` and ``name`` describe the object, ``data``
    is small JSON without secrets or tool arguments.
    """
    event = draft(
        organization=organization, actor=actor, action=action, kind=kind, id=id, name=name, data=data
    )
    event.save(force_insert=True)
    return event


def append_all(events: Sequence[AuditEvent]) -> None:
    """Record what :func:`draft` made, in this order, in one statement."""
    AuditEvent.objects.bulk_create(events)


def draft(
    *,
    organization: Organization | None,
    actor: Actor,
    action: str,
    kind: str,
    id: object,
    name: str = "",
    data: dict[str, Any] | None = None,
) -> AuditEvent:
    """An event as for :func:`append`, not yet recorded."""
    return AuditEvent(
        organization=organization,
        at=clock.now(),
        actor_kind=actor.kind,
        actor_id=actor.id[:200],
        actor_name=actor.name[:200],
        action=action,
        object_kind=kind,
        object_id=str(id)[:200],
        object_name=name[:300],
        data=data or {},
    )
