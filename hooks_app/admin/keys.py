"""Runtime keys: issued, shown once, revoked."""

from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelectWidget

from hooks_app import keys
from hooks_app.models import RuntimeKey
from hooks_app.models.keys import KEY_SCOPES, default_scopes
from portal.admin import changes, operations, showing, shown_once
from portal.admin.forms import ScopedForm
from portal.admin.operations import Operation
from portal.admin.scoping import ScopedAdmin
from portal.admin.showing import Word
from portal.admin.site import site
from portal.lib import clock
from portal.models import User


class KeyForm(ScopedForm):
    """Whose key, and what for."""

    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=[(scope, scope) for scope in KEY_SCOPES],
        initial=default_scopes,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("“eval” takes the hooks away: give it to test runs alone."),
    )

    class Meta:
        model = RuntimeKey
        fields = ("organization", "agent", "label", "scopes", "expires_at")
        help_texts = {"agent": _("Empty: every agent of the organization.")}


class RotateForm(forms.Form):
    """How long the runtimes have."""

    ends_after = forms.ChoiceField(
        label=_("The present key ends"),
        choices=[
            ("0", _("at once")),
            ("3600", _("in one hour")),
            ("86400", _("in one day")),
            ("604800", _("in seven days")),
        ],
        initial="86400",
        widget=UnfoldAdminSelectWidget,
    )


@admin.register(RuntimeKey, site=site)
class RuntimeKeyAdmin(ScopedAdmin):
    """A key that a person makes dies with that person's account."""

    form = KeyForm
    kind = "runtime_key"
    title = _("Runtime keys")
    about = _("How runtimes fetch their registry and ask")
    section = "governance"
    place = 40
    icon = "key"
    changeable = False
    deletable = False
    list_display = (
        "name",
        "organization",
        "agent",
        "scopes",
        "state",
        "created_by",
        "last_used_at",
        "expires_at",
    )
    list_filter = (
        ("organization", admin.RelatedOnlyFieldListFilter),
        ("agent", admin.RelatedOnlyFieldListFilter),
        "created_at",
    )
    search_fields = ("label", "agent__slug", "organization__slug")
    list_select_related = ("organization", "agent", "created_by")
    actions_detail = ("rotate", "revoke")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ("organization", "agent", "label", "scopes", "expires_at")
        return (
            "organization", "agent", "label", "scopes", "state", "created_by", "created_at", "expires_at",
            "last_used_at", "revoked_at",
        )  # fmt: skip

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else self.get_fields(request, obj)

    def has_revoke_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """Once is enough."""
        row = self.get_object(request, object_id) if object_id else None
        return self.has_operate_permission(request, object_id) and (row is None or row.revoked_at is None)

    @admin.display(description=_("label"))
    def name(self, row: RuntimeKey) -> str:
        """Its label, or what it is for."""
        return row.label or (row.agent.slug if row.agent else row.organization.slug)

    @display(description=_("state"), label={"valid": "success", "expired": "info", "revoked": "danger"})
    def state(self, row: RuntimeKey) -> Word:
        """In one word."""
        if row.revoked_at is not None:
            return Word("revoked", _("revoked"))
        if row.expires_at is not None and row.expires_at <= clock.now():
            return Word("expired", _("expired"))
        return Word("valid", _("valid"))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        assert isinstance(request.user, User)
        made, plain = keys.issue(
            organization=form.cleaned_data["organization"],
            agent=form.cleaned_data["agent"],
            scopes=form.cleaned_data["scopes"],
            expires_at=form.cleaned_data["expires_at"],
            label=form.cleaned_data["label"],
            created_by=request.user,
            actor=changes.actor(request),
        )
        obj.__dict__.update(made.__dict__, plain=plain)

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """The only page that ever shows the key."""
        return self._show(request, obj, obj.plain, _("Copy the key now, it is never shown again."))

    def _show(self, request: HttpRequest, row: RuntimeKey, plain: str, text: Any) -> HttpResponse:
        shell = f"export HOOKGATE_URL={settings.BASE_URL}\nexport HOOKGATE_KEY={plain}"
        return shown_once.page(self, request, row, plain=plain, text=text, shell=shell)

    @action(description=_("Rotate"), permissions=["revoke"], icon="autorenew")
    def rotate(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """A second key, then the first one's end."""

        def perform(row: RuntimeKey, data: dict[str, Any]) -> HttpResponse:
            assert isinstance(request.user, User)
            made, plain = keys.rotate(
                row,
                ends_after=timedelta(seconds=int(data["ends_after"])),
                created_by=request.user,
                actor=changes.actor(request),
            )
            text = _("Copy the new key now, it is never shown again. The old one works until %(end)s.")
            row.refresh_from_db()
            return self._show(
                request, made, plain, text % {"end": showing.at(row.expires_at, row.organization)}
            )

        return operations.run(
            self,
            request,
            object_id,
            Operation(
                title=_("Rotate the key"),
                text=_(
                    "Makes a key of the same reach and scopes. Hand it to the runtimes before the old one ends."
                ),
                button=_("Make the new key"),
                form=RotateForm,
                perform=perform,
            ),
        )

    @action(description=_("Revoke"), permissions=["revoke"], icon="block", variant=ActionVariant.DANGER)
    def revoke(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Make it worthless."""

        def perform(row: RuntimeKey, data: dict[str, Any]) -> str:
            keys.revoke(row, actor=changes.actor(request))
            return gettext("The key is worthless from now on.")

        return operations.run(
            self,
            request,
            object_id,
            Operation(
                title=_("Revoke the key"),
                text=_("Runtimes that use it stop at once. This can't be undone."),
                button=_("Revoke"),
                danger=True,
                perform=perform,
            ),
        )
