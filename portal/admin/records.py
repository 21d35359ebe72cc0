"""The audit trail."""

from typing import Any

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from portal.admin import showing
from portal.admin.scoping import RecordAdmin
from portal.admin.site import site
from portal.models import AuditEvent


@admin.register(AuditEvent, site=site)
class AuditEventAdmin(RecordAdmin):
    """Who did what, when; what belongs to no organization is for superusers."""

    kind = "audit_event"
    title = _("Audit trail")
    about = _("Who did what, when")
    section = "records"
    place = 30
    icon = "history"
    list_display = ("time", "actor", "action", "object", "organization")
    list_filter = (
        ("organization", admin.RelatedOnlyFieldListFilter),
        "at",
        "actor_kind",
        "action",
        "object_kind",
    )
    search_fields = ("actor_name", "action", "object_name", "object_id")
    list_select_related = ("organization",)
    list_display_links = ("time", "action")
    fields = (
        "time", "organization", "action", "actor", "actor_id", "object", "object_id", "sequence", "content",
    )  # fmt: skip
    readonly_fields = fields
    date_hierarchy = "at"

    def lookup_allowed(self, lookup: str, value: Any, request: Any = None) -> bool:
        # The history link of every row.
        return lookup == "object_id" or bool(super().lookup_allowed(lookup, value, request))

    @admin.display(description=_("time"), ordering="at")
    def time(self, row: AuditEvent) -> str:
        """In the organization's zone."""
        return showing.at(row.at, row.organization)

    @admin.display(description=_("who"), ordering="actor_name")
    def actor(self, row: AuditEvent) -> str:
        """The person, runtime or account."""
        return f"{row.actor_name or row.actor_id} ({row.actor_kind})"

    @admin.display(description=_("what"), ordering="object_name")
    def object(self, row: AuditEvent) -> str:
        """The row that it is about."""
        return f"{row.object_kind}: {row.object_name or row.object_id}"

    @admin.display(description=_("details"))
    def content(self, row: AuditEvent) -> SafeString:
        """Everything that was recorded with it."""
        return showing.pretty(row.data)
