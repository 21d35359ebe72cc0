"""What a person changed in a form, as the audit trail holds it, and who the person is."""

from typing import Any

from django.conf import settings
from django.forms import BaseForm
from django.http import HttpRequest
from django.utils.module_loading import import_string

from portal import audit
from portal.models import Organization, User


def actor(request: HttpRequest) -> audit.Actor:
    """The person behind the request."""
    assert isinstance(request.user, User)
    return audit.person(request.user)


def outdate(organization: Organization) -> None:
    """Tell whoever builds registries that something they are built from has changed (``settings.INPUTS_CHANGED``)."""
    import_string(settings.INPUTS_CHANGED)(organization)


def of_form(form: BaseForm) -> dict[str, Any]:
    """``{field: [before, after]}`` of what a person changed in a form of a row."""
    changed: list[str] = form.changed_data
    before = form.initial
    return {name: [audit.show(before.get(name)), audit.show(form.cleaned_data.get(name))] for name in changed}


def of_formset(formset: Any) -> dict[str, Any]:
    """Which rows of an inline were added, changed and removed, by their names."""
    found = {
        "added": [str(row) for row in formset.new_objects],
        "changed": [str(row) for row, _fields in formset.changed_objects],
        "removed": [str(row) for row in formset.deleted_objects],
    }
    return {verb: rows for verb, rows in found.items() if rows}
