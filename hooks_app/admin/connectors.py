"""Connectors and their actions; a change holds at once, for every agent."""

from typing import Any

from django import forms
from django.contrib import admin
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from hooks_app import json_schemas
from hooks_app.admin.fields import JSONText, PolicyChoice, Texts
from hooks_app.governance import tables
from hooks_app.models import Action, Connector
from portal.admin.scoping import ScopedAdmin, ScopedStacked
from portal.admin.site import site


class ToolForm(forms.ModelForm):  # type: ignore[type-arg]
    """What the gate must know of a tool."""

    policy = PolicyChoice()
    redact = Texts(label=_("Redacted arguments"), help_text=_("Paths such as card_number, one per line."))
    schema = JSONText(label=_("Schema"), required=False)

    def clean_schema(self) -> Any:
        """A JSON Schema, or nothing."""
        schema = self.cleaned_data["schema"]
        if schema is not None:
            json_schemas.validate(schema)  # a column's own validators pass by what is empty, as [] is
        return schema

    class Meta:
        fields = (
            "name", "description", "writes", "requires_confirmation", "policy", "redact", "schema", "position",
        )  # fmt: skip


class ActionInline(ScopedStacked):
    """The connector's actions."""

    model = Action
    form = ToolForm
    verbose_name = _("action")
    verbose_name_plural = _("actions")
    collapsible = True


@admin.register(Connector, site=site)
class ConnectorAdmin(ScopedAdmin):
    """Systems that tools act on."""

    writer = tables.CONNECTORS
    title = _("Connectors")
    about = _("Systems that tools act on, and their actions")
    section = "governance"
    place = 30
    icon = "cable"
    list_display = ("slug", "organization", "size")
    list_filter = (("organization", admin.RelatedOnlyFieldListFilter),)
    search_fields = ("slug", "actions__name")
    list_select_related = ("organization",)
    inlines = (ActionInline,)

    @admin.display(description=_("actions"))
    def size(self, row: Connector) -> str:
        """How many it has."""
        count = row.actions.count()
        return ngettext("%(count)d action", "%(count)d actions", count) % {"count": count}
