"""Which account of which bot is which person."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget

from channels_app import identities
from channels_app.models import Channel, Identity
from portal.admin import changes, scoping
from portal.admin.forms import ScopedForm
from portal.admin.scoping import ScopedAdmin
from portal.admin.site import site


class BindForm(ScopedForm):
    """A new binding."""

    channel = forms.ModelChoiceField(
        label=_("Channel"),
        queryset=Channel.objects.none(),
        required=False,
        empty_label=_("The runtimes' own user ids"),
        widget=UnfoldAdminSelectWidget,
        help_text=_("The account is known in every channel of the same bot."),
    )

    class Meta:
        model = Identity
        fields = ("organization", "user", "external_id", "name")


@admin.register(Identity, site=site)
class IdentityAdmin(ScopedAdmin):
    """Bindings are made and taken away; another person's is another binding."""

    kind = "identity"
    title = _("Identities")
    about = _("Which chat account is which person")
    section = "channels"
    place = 20
    icon = "badge"
    changeable = False
    of_strangers = True
    heavy = ("app__token",)
    list_display = ("external_id", "name", "user", "where", "organization", "created_at")
    list_filter = (("organization", admin.RelatedOnlyFieldListFilter),)
    search_fields = ("external_id", "name", "user__username")
    list_select_related = ("organization", "app", "user")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is None:
            kwargs["form"] = BindForm
        form = super().get_form(request, obj, change=change, **kwargs)
        if obj is None:
            form.base_fields["channel"].queryset = scoping.choices(request, Channel)
        return form

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ("organization", "user", "channel", "external_id", "name")
        return ("organization", "user", "where", "external_id", "name", "created_at")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else self.get_fields(request, obj)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        made = identities.bind(
            organization=form.cleaned_data["organization"],
            user=form.cleaned_data["user"],
            channel=form.cleaned_data["channel"],
            external_id=form.cleaned_data["external_id"],
            name=form.cleaned_data["name"],
            actor=changes.actor(request),
        )
        obj.__dict__.update(made.__dict__)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        identities.unbind(obj, actor=changes.actor(request))

    @admin.display(description=_("bot"))
    def where(self, row: Identity) -> Any:
        """Whose account numbers these are."""
        return str(row.app) if row.app else _("the runtimes' own user ids")
