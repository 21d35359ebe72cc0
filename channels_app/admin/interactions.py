"""What platforms sent, and the bots themselves."""

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from channels_app.models import App, Interaction
from portal.admin import showing
from portal.admin.scoping import RecordAdmin
from portal.admin.site import site


@admin.register(Interaction, site=site)
class InteractionAdmin(RecordAdmin):
    """Authentic taps, once each."""

    kind = "interaction"
    title = _("Interactions")
    about = _("Taps that arrived, once each")
    section = "channels"
    place = 40
    icon = "touch_app"
    heavy = ("answer", "channel__config")
    list_display = ("received", "channel", "external_id", "action", "result", "organization")
    list_filter = (
        ("organization", admin.RelatedOnlyFieldListFilter),
        ("channel", admin.RelatedOnlyFieldListFilter),
        "action",
        "result",
        "received_at",
    )
    search_fields = ("external_id", "event_id")
    list_select_related = ("organization", "channel")
    fields = (
        "received",
        "organization",
        "channel",
        "app",
        "external_id",
        "action",
        "result",
        "delivery",
        "event_id",
    )
    readonly_fields = fields

    @admin.display(description=_("received at"), ordering="received_at")
    def received(self, row: Interaction) -> str:
        """In the organization's zone."""
        return showing.at(row.received_at, row.organization)


@admin.register(App, site=site)
class AppAdmin(RecordAdmin):
    """One bot of one platform; made and changed with its channels."""

    kind = "app"
    title = _("Apps")
    about = _("The bots behind the channels")
    section = "channels"
    place = 50
    icon = "smart_toy"
    heavy = ("token",)
    list_display = ("key", "type", "organization", "last_callback")
    list_filter = (("organization", admin.RelatedOnlyFieldListFilter), "type")
    search_fields = ("key",)
    list_select_related = ("organization",)
    fields = ("organization", "type", "key", "tenant_key", "used_by", "token_until", "last_callback")
    readonly_fields = fields

    @admin.display(description=_("channels"))
    def used_by(self, row: App) -> str:
        """Those that share it."""
        return ", ".join(row.channels.values_list("slug", flat=True)) or "–"

    @admin.display(description=_("token valid until"))
    def token_until(self, row: App) -> str:
        """The token itself is shown nowhere."""
        return showing.at(row.token_expires_at, row.organization)

    @admin.display(description=_("last callback"))
    def last_callback(self, row: App) -> str:
        """When the platform called last."""
        return showing.at(row.last_callback_at, row.organization)
