"""Personal tokens: issued for oneself, shown once, revoked at once."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from portal.admin import accounts, changes, operations, reach, shown_once
from portal.admin.forms import ScopedForm
from portal.admin.operations import Operation
from portal.admin.scoping import ScopedAdmin
from portal.admin.site import site
from portal.models import PersonalToken, User
from portal.models.tokens import TOKEN_SCOPES
from portal.people import tokens


class TokenForm(ScopedForm):
    """What a new token is for."""

    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=[(scope, scope) for scope in TOKEN_SCOPES],
        initial=["read"],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("“decide” lets a program approve and reject in your name."),
    )

    class Meta:
        model = PersonalToken
        fields = ("label", "scopes", "expires_at")


@admin.register(PersonalToken, site=site)
class PersonalTokenAdmin(ScopedAdmin):
    """A person makes tokens for nobody else; admins see and revoke those of people who are theirs alone."""

    form = TokenForm
    kind = "personal_token"
    title = _("Personal tokens")
    about = _("A person's way in for programs")
    section = "organization"
    place = 50
    icon = "vpn_key"
    changeable = False
    deletable = False
    list_display = ("user", "label", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at")
    list_filter = ("created_at", "revoked_at")
    search_fields = ("user__username", "label")
    list_select_related = ("user",)
    readonly_fields = ("user", "created_at", "revoked_at", "last_used_at")
    actions_detail = ("revoke",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ("label", "scopes", "expires_at")
        return ("user", "label", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[PersonalToken]:
        """One's own, and those of the members of organizations that one administers; all of them for superusers."""
        rows: QuerySet[PersonalToken] = PersonalToken.objects.all()
        found = reach.of(request)
        if found.everything:
            return rows
        theirs = User.objects.filter(memberships__organization__in=found.writable).values("pk")
        return rows.filter(user__in=theirs) | rows.filter(user=request.user.pk)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        found = reach.of(request)
        return found.everything or bool(found.readable)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_operate_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        if object_id is None:
            return self.has_view_permission(request)
        row = self.get_object(request, object_id)
        if row is None or row.revoked_at is not None:
            return False
        return row.user_id == request.user.pk or accounts.may_manage(request, row.user)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        assert isinstance(request.user, User)
        made, plain = tokens.issue(
            user=request.user,
            scopes=form.cleaned_data["scopes"],
            expires_at=form.cleaned_data["expires_at"],
            label=form.cleaned_data["label"],
            actor=changes.actor(request),
        )
        obj.__dict__.update(made.__dict__, plain=plain)

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """The only page that ever shows the token."""
        text = _("Copy the token now, it is never shown again.")
        return shown_once.page(self, request, obj, plain=obj.plain, text=text)

    @action(description=_("Revoke"), permissions=["operate"], icon="block", variant=ActionVariant.DANGER)
    def revoke(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Make it worthless."""

        def perform(row: PersonalToken, data: dict[str, Any]) -> str:
            tokens.revoke(row, changes.actor(request))
            return gettext("The token is worthless from now on.")

        return operations.run(
            self,
            request,
            object_id,
            Operation(
                title=_("Revoke the token"),
                text=_("Programs that use it are refused at once. This can't be undone."),
                button=_("Revoke"),
                danger=True,
                perform=perform,
            ),
        )
