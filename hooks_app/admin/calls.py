"""The call log, for reading."""

from typing import Any

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from hooks_app import digests
from hooks_app.models import ConfirmationRequest, ConnectorCallLog
from portal.admin import showing
from portal.admin.scoping import RecordAdmin
from portal.admin.showing import Word
from portal.admin.site import site
from portal.lib import clock


@admin.register(ConnectorCallLog, site=site)
class CallAdmin(RecordAdmin):
    """Every tool call, as its runtime reported it."""

    kind = "call"
    title = _("Calls")
    about = _("Every tool call, as its runtime reported it")
    section = "records"
    place = 20
    icon = "receipt_long"
    heavy = ("args", "result", "trace", "side_effects", "reason", "error")
    list_display = (
        "started",
        "tool_name",
        "agent_slug",
        "badge",
        "blocked_by",
        "user_text",
        "took",
        "organization",
    )
    list_filter = (
        "status",
        ("organization", admin.RelatedOnlyFieldListFilter),
        ("agent", admin.RelatedOnlyFieldListFilter),
        "surface",
        "blocked_by",
        "started_at",
    )
    search_fields = (
        "tool_name",
        "agent_slug",
        "conversation_id",
        "tool_call_id",
        "user_id_text",
        "reason",
        "error",
    )
    list_select_related = ("organization",)
    date_hierarchy = "started_at"
    fieldsets = (
        (
            None,
            {"fields": ("badge", "tool_name", "agent_slug", "organization", "arguments", "reason", "error")},
        ),
        (
            _("Course"),
            {
                "fields": (
                    "started",
                    "took",
                    "blocked_by",
                    "result_bytes",
                    "outcome",
                    "confirmation",
                    "steps",
                    "effects",
                )
            },
        ),
        (
            _("Where"),
            {"fields": ("user_text", "runtime", "surface", "session_id", "conversation_id", "tool_call_id")},
        ),
        (_("Digests"), {"classes": ("collapse",), "fields": ("args_tag", "digest", "registry_digest")}),
    )

    def get_readonly_fields(self, request: Any, obj: Any = None) -> Any:
        return [name for _title, options in self.fieldsets for name in options["fields"]]

    @display(description=_("status"), ordering="status", label=showing.STATUS_COLOURS)
    def badge(self, row: ConnectorCallLog) -> Word:
        """In its colour."""
        return Word(row.status, row.get_status_display())

    @admin.display(description=_("started at"), ordering="started_at")
    def started(self, row: ConnectorCallLog) -> str:
        """In the organization's zone."""
        return showing.at(row.started_at, row.organization)

    @admin.display(description=_("took"), ordering="duration_ms")
    def took(self, row: ConnectorCallLog) -> str:
        """How long, in words."""
        return showing.duration(row.duration_ms)

    @admin.display(description=_("tag of the arguments"))
    def args_tag(self, row: ConnectorCallLog) -> str:
        """The same tag, the same arguments."""
        return digests.tag(row.organization_id, row.args_digest) if row.args_digest else "–"

    @admin.display(description=_("digest of the arguments"))
    def digest(self, row: ConnectorCallLog) -> str:
        """Nothing where a part is hidden: it would tell what."""
        return "–" if digests.hides(row.args) else row.args_digest or "–"

    @admin.display(description=_("user"))
    def user_text(self, row: ConnectorCallLog) -> str:
        """For whom."""
        return showing.person(row.user)

    @admin.display(description=_("arguments (redacted)"))
    def arguments(self, row: ConnectorCallLog) -> SafeString:
        """As the runtime sent them."""
        return showing.pretty(row.args)

    @admin.display(description=_("result (redacted)"))
    def outcome(self, row: ConnectorCallLog) -> SafeString | str:
        """Where `audit_log` keeps results."""
        return "–" if row.result is None else showing.pretty(row.result)

    @admin.display(description=_("trace"))
    def steps(self, row: ConnectorCallLog) -> SafeString:
        """Which hooks ran, and what they said."""
        return showing.pretty(row.trace)

    @admin.display(description=_("side effects"))
    def effects(self, row: ConnectorCallLog) -> SafeString:
        """What hooks did beside."""
        return showing.pretty(row.side_effects)

    @admin.display(description=_("confirmation"))
    def confirmation(self, row: ConnectorCallLog) -> Any:
        """The request behind it, if it is one of this organization's."""
        if row.confirmation_id is None:
            return "–"
        found = ConfirmationRequest.objects.filter(pk=row.confirmation_id, organization=row.organization_id)
        if not found.exists():
            return str(row.confirmation_id)
        url = reverse("admin:hooks_app_confirmationrequest_change", args=[row.confirmation_id])
        link = format_html('<a class="hookgate-link" href="{}">{}</a>', url, row.confirmation_id)
        waits = (
            row.status == "cancelled" and found.filter(status="pending", expires_at__gt=clock.now()).exists()
        )
        if not waits:
            return link
        told = _(
            "The process left this call; its request still waits for people, and the next process takes it up."
        )
        return format_html("{}<br>{}", link, told)
