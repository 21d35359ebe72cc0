"""The audit trail."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from portal.admin import showing
from portal.admin.scoping import RecordAdmin
from portal.admin.site import site
from portal.models import AuditEvent

_LONGEST_ID: int = AuditEvent._meta.get_field("object_id").max_length or 0


class ObjectFilter(admin.SimpleListFilter):
    """The history of one row, which its page links to: nothing to choose from, so it shows only while it is set."""

    title = _("row")
    parameter_name = "object_id"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        value = self.value()
        return [(value, value)] if value and len(value) <= _LONGEST_ID else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEvent]) -> QuerySet[AuditEvent]:
        return queryset.filter(object_id=self.value()) if self.value() else queryset


@admin.register(AuditEvent, site=site)
class AuditEventAdmin(RecordAdmin):
    """Who did what, when; what belongs to no organization is for superusers."""

    kind = "audit_event"
    title = _("Audit trail")
    about = _("Who did what, when")
    section = "records"
    place = 30
    icon = "history"
    heavy = ("data",)
    list_display = ("time", "actor", "action", "object", "organization")
    list_filter = (
        ("organization", admin.RelatedOnlyFieldListFilter),
        "at",
        "actor_kind",
        "action",
        "object_kind",
        ObjectFilter,
    )
    search_fields = ("actor_name", "action", "object_name", "object_id")
    list_select_related = ("organization",)
    list_display_links = ("time", "action")
    fields = (
        "time", "organization", "action", "actor", "actor_id", "object", "object_id", "sequence", "content",
    )  # fmt: skip
    readonly_fields = fields
    date_hierarchy = "at"

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
        data = dict(row.data)
        if "args_tag" not in data:
            # From a release that recorded digests of arguments of which a part is hidden.
            data.pop("args_digest", None)
        return showing.pretty(data)
