"""What is on its way to people, and what became of it."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action, display

from channels_app.models import Delivery, DeliveryAttempt
from channels_app.outbox import deliveries
from portal.admin import changes, operations, showing
from portal.admin.operations import Operation
from portal.admin.scoping import RecordAdmin, ScopedTabular
from portal.admin.showing import Word
from portal.admin.site import site


class AttemptInline(ScopedTabular):
    """Every call to the platform."""

    model = DeliveryAttempt
    fields = ("time", "kind", "version", "result", "code", "message", "took")
    readonly_fields = fields
    hide_title = True
    verbose_name_plural = _("attempts")

    @admin.display(description=_("took"))
    def took(self, row: DeliveryAttempt) -> str:
        """How long the platform took."""
        return showing.duration(row.duration_ms)

    @admin.display(description=_("time"))
    def time(self, row: DeliveryAttempt) -> str:
        """In the organization's zone."""
        return showing.at(row.at, row.delivery.organization)


@admin.register(Delivery, site=site)
class DeliveryAdmin(RecordAdmin):
    """The outbox. The card's content and its buttons' reference stay where they are."""

    kind = "delivery"
    title = _("Deliveries")
    about = _("Cards on their way, and what became of them")
    section = "channels"
    place = 30
    icon = "outgoing_mail"
    heavy = ("card", "ref", "handle", "channel__config")
    list_display = (
        "created",
        "channel",
        "recipient",
        "topic",
        "badge",
        "attempts",
        "last_error",
        "organization",
    )
    list_filter = (
        ("organization", admin.RelatedOnlyFieldListFilter),
        "status",
        ("channel", admin.RelatedOnlyFieldListFilter),
        "created_at",
    )
    search_fields = ("recipient", "topic", "message_id", "last_error")
    list_select_related = ("organization", "channel")
    fields = (
        "organization", "channel", "recipient", "topic", "badge", "attempts", "last_error", "created", "sent",
        "due", "message_id", "chat_id", "wanted_version", "shown_version",
    )  # fmt: skip
    readonly_fields = fields
    inlines = (AttemptInline,)
    actions_detail = ("retry",)

    def has_retry_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """Admins, and only where there is something to repeat."""
        if not self.has_operate_permission(request, object_id):
            return False
        row = self.get_object(request, object_id) if object_id else None
        if row is None:
            return object_id is None
        return bool(
            row.status == "failed" or (row.status == "sent" and row.shown_version < row.wanted_version)
        )

    @display(
        description=_("status"),
        ordering="status",
        label=showing.STATUS_COLOURS,
    )
    def badge(self, row: Delivery) -> Word:
        """In its colour."""
        return Word(row.status, row.get_status_display())

    @admin.display(description=_("created at"), ordering="created_at")
    def created(self, row: Delivery) -> str:
        """When it was wanted."""
        return showing.at(row.created_at, row.organization)

    @admin.display(description=_("sent at"))
    def sent(self, row: Delivery) -> str:
        """When the platform took it."""
        return showing.at(row.sent_at, row.organization)

    @admin.display(description=_("due at"))
    def due(self, row: Delivery) -> str:
        """When it is tried next."""
        return showing.at(row.due_at, row.organization)

    @action(description=_("Try again"), permissions=["retry"], icon="replay")
    def retry(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Repeat what has failed for good."""

        def perform(row: Delivery, data: dict[str, Any]) -> str:
            deliveries.retry(row, changes.actor(request))
            return gettext("It is due again.")

        return operations.run(
            self,
            request,
            object_id,
            Operation(
                title=_("Try the delivery again"),
                text=_("The newest card is sent as soon as a worker is free."),
                button=_("Try again"),
                perform=perform,
            ),
        )
