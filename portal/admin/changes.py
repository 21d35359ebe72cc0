"""What the admin pages write beside the row: the audit event, and the news that registries are out of date."""

import json
from typing import Any

from django.conf import settings
from django.db.models import Model
from django.forms import BaseForm
from django.http import HttpRequest
from django.utils.module_loading import import_string

from portal import audit
from portal.models import Organization, User

# A longer value is left out of the audit event, which says that it changed.
_LONGEST_VALUE = 300


def actor(request: HttpRequest) -> audit.Actor:
    """The person behind the request."""
    assert isinstance(request.user, User)
    return audit.person(request.user)


def record(
    request: HttpRequest,
    *,
    organization: Organization | None,
    kind: str,
    verb: str,
    row: Model,
    name: str,
    data: dict[str, Any] | None = None,
) -> None:
    """Append ``kind.verb`` to the audit trail; call it in the transaction of the change."""
    audit.append(
        organization=organization,
        actor=actor(request),
        action=f"{kind}.{verb}",
        kind=kind,
        id=row.pk,
        name=name,
        data=data,
    )


def outdate(organization: Organization) -> None:
    """Tell whoever builds registries that something they are built from has changed (``settings.INPUTS_CHANGED``)."""
    import_string(settings.INPUTS_CHANGED)(organization)


def of_form(form: BaseForm) -> dict[str, Any]:
    """``{field: [before, after]}`` of what a person changed in a form of a row."""
    changed: list[str] = form.changed_data
    before = form.initial
    return {name: [show(before.get(name)), show(form.cleaned_data.get(name))] for name in changed}


def of_formset(formset: Any) -> dict[str, Any]:
    """Which rows of an inline were added, changed and removed, by their names."""
    found = {
        "added": [str(row) for row in formset.new_objects],
        "changed": [str(row) for row, _fields in formset.changed_objects],
        "removed": [str(row) for row in formset.deleted_objects],
    }
    return {verb: rows for verb, rows in found.items() if rows}


def show(value: Any) -> Any:
    """``value`` as an audit event may hold it: small JSON."""
    if isinstance(value, Model):
        return str(value)
    try:
        written = json.dumps(value, ensure_ascii=False)
    except TypeError:
        return str(value)
    return value if len(written) <= _LONGEST_VALUE else f"({len(written)} characters)"
