"""Users: an admin manages the accounts that belong to no organization but the admin's own."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminSelectWidget

from portal.admin import accounts, changes, operations, reach, scoping
from portal.admin.forms import ScopedForm
from portal.admin.operations import Operation
from portal.admin.scoping import ScopedAdmin
from portal.admin.site import site
from portal.models import Membership, Organization, Role, User

_COLUMNS = ("username", "first_name", "last_name", "email", "is_active")


class PasswordForm(forms.Form):
    """A new password, twice."""

    password = forms.CharField(
        label=_("New password"),
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
    )
    again = forms.CharField(
        label=_("The same again"),
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, Any]:
        """Both must agree and pass the installation's rules."""
        cleaned = super().clean() or {}
        if cleaned.get("password") != cleaned.get("again"):
            self.add_error("again", gettext("The two passwords differ."))
        elif cleaned.get("password"):
            try:
                validate_password(cleaned["password"])
            except ValidationError as error:
                self.add_error("password", error)
        return cleaned


class NewUserForm(ScopedForm):
    """A new account, a member of one organization from the start."""

    organization = forms.ModelChoiceField(
        label=_("Organization"), queryset=Organization.objects.none(), widget=UnfoldAdminSelectWidget
    )
    role = forms.ChoiceField(
        label=_("Role"), choices=Role.choices, initial=Role.MEMBER, widget=UnfoldAdminSelectWidget
    )
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text=_("Without one nobody can sign in as this person until an admin sets it."),
    )

    class Meta:
        model = User
        fields = ("username", "first_name", "last_name", "email")

    def clean_password(self) -> str:
        """The installation's rules hold."""
        password: str = self.cleaned_data["password"]
        if password:
            validate_password(password)
        return password


class MembershipFilter(admin.SimpleListFilter):
    """By organization, those that the person may look at alone."""

    title = _("organization")
    parameter_name = "organization"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        found = reach.of(request)
        rows = Organization.objects.all() if found.everything else _of(found.readable)
        return [(row.slug, row.slug) for row in rows]

    def queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> QuerySet[User]:
        found = reach.of(request)
        rows = Organization.objects.all() if found.everything else _of(found.readable)
        members = Membership.objects.filter(
            organization__in=rows.filter(slug=self.value() or "").values("pk")
        )
        return queryset.filter(pk__in=members.values("user")) if self.value() else queryset


def _of(ids: frozenset[UUID]) -> QuerySet[Organization]:
    return Organization.objects.filter(pk__in=ids)


@admin.register(User, site=site)
class UserAdmin(ScopedAdmin):
    """People. They are switched off, not deleted: records name them."""

    kind = "user"
    title = _("Users")
    about = _("Accounts and passwords")
    section = "organization"
    place = 20
    icon = "person"
    deletable = False
    list_display = ("username", "full_name", "email", "roles", "is_active", "last_login")
    list_filter = ("is_active", MembershipFilter)
    search_fields = ("username", "first_name", "last_name", "email")
    ordering = ("username",)
    readonly_fields = ("last_login", "date_joined", "roles")
    actions_detail = ("set_password",)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is None:
            kwargs["form"] = NewUserForm
        form = super().get_form(request, obj, change=change, **kwargs)
        if obj is None:
            field = form.base_fields["organization"]
            field.queryset = scoping.choices(request, Organization)
            field.initial = field.queryset.first() if field.queryset.count() == 1 else None
        return form

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ("username", "first_name", "last_name", "email", "organization", "role", "password")
        return (*_COLUMNS, "roles", "last_login", "date_joined")

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        """The members of the organizations that the person may look at."""
        found = reach.of(request)
        seen = Membership.objects.select_related("organization")
        if not found.everything:
            seen = seen.filter(organization__in=found.readable)
        # What a person is elsewhere is nobody's business here.
        rows = User.objects.order_by(*self.ordering).prefetch_related(Prefetch("memberships", queryset=seen))
        return rows if found.everything else rows.filter(pk__in=seen.values("user"))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(reach.of(request).readable) or reach.of(request).everything

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        found = reach.of(request)
        if obj is None:
            return found.everything or bool(found.writable)
        return accounts.may_manage(request, obj)

    def has_operate_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        row = self.get_object(request, object_id) if object_id else None
        return row is not None and accounts.may_manage(request, row)

    def organization_of(self, obj: Any) -> Organization | None:
        """An account is nobody's; its audit events go to the only organization it is a member of."""
        homes = Membership.objects.filter(user=obj).select_related("organization")[:2]
        return homes[0].organization if len(homes) == 1 else None

    def name_of(self, obj: Any) -> str:
        return str(obj.username)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.set_password(form.cleaned_data["password"] or None)
        obj.save()
        if not change:
            organization = form.cleaned_data["organization"]
            Membership.objects.create(organization=organization, user=obj, role=form.cleaned_data["role"])
            changes.record(
                request,
                organization=organization,
                kind="member",
                verb="created",
                row=obj,
                name=f"{organization.slug}/{obj.username}",
                data={"role": [None, form.cleaned_data["role"]]},
            )

    @admin.display(description=_("name"))
    def full_name(self, row: User) -> str:
        """First and last name."""
        return row.get_full_name() or "–"

    @admin.display(description=_("roles"))
    def roles(self, row: User) -> str:
        """In which organizations, as what. A superuser needs none."""
        named = [f"{m.organization.slug}: {m.get_role_display()}" for m in row.memberships.all()]
        return ", ".join([gettext("superuser")] * row.is_superuser + named) or "–"

    @action(
        description=_("Set password"), permissions=["operate"], icon="password", variant=ActionVariant.DEFAULT
    )
    def set_password(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Give the person a new password."""

        def perform(row: User, data: dict[str, Any]) -> str:
            row.set_password(data["password"])
            row.save(update_fields=["password"])
            self.wrote(request, row, "password_set", {})
            return gettext("The password is set; every session of %(user)s has ended.") % {
                "user": row.username
            }

        return operations.run(
            self,
            request,
            object_id,
            Operation(
                title=_("Set a new password"),
                text=_("Sessions that are open end. Tokens go on working; revoke them if need be."),
                button=_("Set password"),
                form=PasswordForm,
                perform=perform,
            ),
        )
