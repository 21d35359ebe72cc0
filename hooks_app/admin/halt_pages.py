"""The kill switch as buttons, for organizations and agents alike."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSplitDateTimeWidget, UnfoldAdminTextareaWidget

from hooks_app.governance import halting
from hooks_app.models import Agent
from portal.admin import changes, operations
from portal.admin.operations import Operation
from portal.models import Organization


class HaltForm(forms.Form):
    """Why, and for how long."""

    reason = forms.CharField(
        label=_("Reason"),
        max_length=halting.MAX_REASON,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text=_("Everybody whose calls stop is told this."),
    )
    until = forms.SplitDateTimeField(
        label=_("Until (UTC)"),
        required=False,
        widget=UnfoldAdminSplitDateTimeWidget,
        help_text=_("Empty: until somebody resumes."),
    )


def halt(screen: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Stop every tool of the row."""

    def perform(row: Any, data: dict[str, Any]) -> str:
        halting.halt(**_of(row), reason=data["reason"], until=data["until"], actor=changes.actor(request))
        return gettext("Halted. No tool runs from now on.")

    return operations.run(
        screen,
        request,
        object_id,
        Operation(
            title=_("Halt"),
            text=_("No tool runs until you resume. Runtimes are woken and stop with their next call."),
            button=_("Halt"),
            form=HaltForm,
            danger=True,
            perform=perform,
        ),
    )


def resume(screen: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Take the halt back."""

    def perform(row: Any, data: dict[str, Any]) -> str:
        was_halted = halting.resume(**_of(row), actor=changes.actor(request))
        return gettext("Resumed. Tools run again.") if was_halted else gettext("It was not halted.")

    return operations.run(
        screen,
        request,
        object_id,
        Operation(
            title=_("Resume"),
            text=_("Tools run again, under the rules that hold now."),
            button=_("Resume"),
            perform=perform,
        ),
    )


def _of(row: Organization | Agent) -> dict[str, Any]:
    if isinstance(row, Agent):
        return {"organization": row.organization, "agent": row}
    return {"organization": row}
