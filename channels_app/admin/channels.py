"""Channels: choose a platform, fill in its settings, check that it works."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from channels_app import channels, condition
from channels_app.admin.channel_form import form_class
from channels_app.admin.fields import PREFIX
from channels_app.models import Channel
from portal.admin import changes, operations, showing
from portal.admin.operations import Operation
from portal.admin.scoping import ScopedAdmin
from portal.admin.showing import Word
from portal.admin.site import site
from portal.lib.problems import Problem

_COLOURS = {"works": "success", "off": "info", "error": "danger", "away": "danger", "unchecked": "warning"}
_STATES = {
    "works": _("works"),
    "off": _("off"),
    "error": _("error"),
    "away": _("platform away"),
    "unchecked": _("not checked"),
}
_COMMON = ("organization", "slug", "enabled", "language")


@admin.register(Channel, site=site)
class ChannelAdmin(ScopedAdmin):
    """Bots in chats. One that has history is switched off, not deleted."""

    kind = "channel"
    title = _("Channels")
    about = _("Bots in chats: where people are asked")
    section = "channels"
    place = 10
    icon = "forum"
    heavy = ("app__token",)
    outdates = True
    list_display = ("slug", "type", "enabled", "language", "organization", "state")
    list_filter = (("organization", admin.RelatedOnlyFieldListFilter), "type", "enabled")
    search_fields = ("slug", "app__key")
    list_select_related = ("organization", "app")
    readonly_fields = ("platform", "callback", "app", "worked", "trouble")
    deletable = False
    actions_detail = ("try_out", "send_test", "remove")

    # The form is drawn for the platform

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """First the platform, then its settings."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        known = dict(channels.types())
        if request.GET.get("type") in known:
            answer: HttpResponse = super().add_view(request, form_url, extra_context)
            return answer
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("Which platform?"),
            "types": [_describe(type, title) for type, title in sorted(known.items())],
        }
        return TemplateResponse(request, "admin/channels_app/channel/choose.html", context)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs["form"] = form_class(_type_of(request, obj), obj)
        return super().get_form(request, obj, change=change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        type = _type_of(request, obj)
        names = [PREFIX + name for name in channels.adapter_class(type).config_model.model_fields]
        shown = (
            ("platform", *_COMMON)
            if obj is None
            else ("platform", *_COMMON, "callback", "app", "worked", "trouble")
        )
        return [(None, {"fields": shown}), (_("Settings"), {"fields": names})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fixed = tuple(super().get_readonly_fields(request, obj))
        return fixed if obj is not None else ("platform",)

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, add: bool = False
    ) -> Any:
        return {}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        stored = Channel.objects.get(pk=obj.pk) if change else None
        before = _content(stored) if stored else None
        saved = channels.save(
            organization=stored.organization if stored else form.cleaned_data["organization"],
            slug=stored.slug if stored else form.cleaned_data["slug"],
            type=form.type,
            enabled=form.cleaned_data["enabled"],
            language=form.cleaned_data["language"],
            config=form.config(),
            channel=stored,
            actor=changes.actor(request),
        )
        obj.__dict__.update(saved.__dict__)
        if before != _content(saved):
            changes.outdate(obj.organization)

    # What the page shows

    @admin.display(description=_("platform"))
    def platform(self, row: Channel) -> str:
        """Its name."""
        return dict(channels.types()).get(row.type, row.type)

    @admin.display(description=_("callback URL"))
    def callback(self, row: Channel) -> SafeString:
        """What the platform must call."""
        return format_html('<code class="hookgate-copy">{}</code>', channels.callback_url(row))

    @admin.display(description=_("last error"))
    def trouble(self, row: Channel) -> str:
        """The last permanent failure."""
        if not row.last_error:
            return "–"
        return f"{row.last_error} ({showing.at(row.last_error_at, row.organization)})"

    @display(description=_("state"), label=_COLOURS)
    def state(self, row: Channel) -> Word:
        """In one word; green only for what was seen to work."""
        word = condition.state(row)
        return Word(word, _STATES[word])

    @admin.display(description=_("last seen to work"))
    def worked(self, row: Channel) -> str:
        """When its present configuration passed a check or delivered a card."""
        if row.worked_at is None:
            return str(_("never, with this configuration: press “Check”"))
        return showing.at(row.worked_at, row.organization)

    # Buttons

    @action(description=_("Check"), url_path="try", permissions=["operate"], icon="troubleshoot")
    def try_out(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask the platform what works; by POST, because it speaks to the outside."""
        row = self.get_object(request, object_id)
        found = condition.check(row) if row is not None and request.method == "POST" else None
        context = {"found": found, "callback": channels.callback_url(row) if row is not None else ""}
        return operations.run(
            self,
            request if found is None else _as_get(request),
            object_id,
            Operation(
                title=_("Check the channel"),
                text=_("Asks the platform for a token, the bot and the chat, as a delivery would."),
                button=_("Check now"),
                perform=lambda row, data: "",
                template="admin/channels_app/channel/check.html",
                context=context,
            ),
        )

    @action(description=_("Send a test message"), permissions=["operate"], icon="send")
    def send_test(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """A card with one button."""

        def perform(row: Channel, data: dict[str, Any]) -> str:
            refusal = channels.usable(row)
            if refusal:
                raise Problem(409, "not_usable", refusal)
            channels.send_test(row)
            return gettext("The test message is on its way; the list of deliveries shows what becomes of it.")

        return operations.run(
            self,
            request,
            object_id,
            Operation(
                title=_("Send a test message"),
                text=_("A card with one button goes to the chat. A tap on it shows that taps arrive."),
                button=_("Send"),
                perform=perform,
            ),
        )

    @action(description=_("Remove"), permissions=["operate"], icon="delete", variant=ActionVariant.DANGER)
    def remove(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Delete it, or switch it off."""

        def perform(row: Channel, data: dict[str, Any]) -> str:
            organization = row.organization
            gone = channels.remove(row, actor=changes.actor(request))
            changes.outdate(organization)
            if gone:
                return gettext("The channel is deleted.")
            return gettext("The channel has history: it is switched off, and its records stay.")

        return operations.run(
            self,
            request,
            object_id,
            Operation(
                title=_("Remove the channel"),
                text=_("A channel that has sent or received something is switched off, not deleted."),
                button=_("Remove"),
                danger=True,
                perform=perform,
            ),
        )


def _content(row: Channel) -> tuple[Any, ...]:
    return row.app_id, row.enabled, row.language, dict(row.config)


def _type_of(request: HttpRequest, channel: Channel | None) -> str:
    return channel.type if channel is not None else request.GET.get("type", "")


def _describe(type: str, title: str) -> dict[str, Any]:
    platform = channels.adapter_class(type)
    url = reverse("admin:channels_app_channel_add")
    return {"title": title, "type": type, "url": f"{url}?type={type}", "sends": hasattr(platform, "send")}


def _as_get(request: HttpRequest) -> HttpRequest:
    request.method = "GET"
    return request
