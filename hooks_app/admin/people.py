"""Users: an admin manages the accounts that belong to no organization but the admin's own."""

from functools import partial
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminSelectWidget

from hooks_app.admin import estates
from hooks_app.governance import emails, leaving, members, quorums
from portal.admin import changes, operations, reach, scoping, shown_once
from portal.admin.accounts import may_manage
from portal.admin.forms import ScopedForm
from portal.admin.operations import Operation
from portal.admin.scoping import ScopedAdmin
from portal.admin.site import site
from portal.lib.problems import Problem
from portal.models import Membership, Organization, Role, User
from portal.people import accounts, links

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


class AccountForm(ScopedForm):
    """An account whose e-mail address no other member of its organizations has."""

    def clean(self) -> dict[str, Any]:
        """Each address is one member's."""
        cleaned = super().clean()
        chosen = cleaned.get("organization")
        homes = Membership.objects.filter(user=self.instance).values_list("organization_id", flat=True)
        other = emails.holder(
            cleaned.get("email") or "", [chosen.pk] if chosen else homes, but=self.instance.pk
        )
        if other is not None:
            text = gettext("This is the address of %(user)s; each member has one of their own.")
            self.add_error("email", text % {"user": other.username})
        return cleaned


class NewUserForm(AccountForm):
    """A new account, a member of one organization from the start.

    Names that an admin gives end in ``@ORGANIZATION``: each organization has names of its own, and its admins are not
    told which names there are elsewhere.
    """

    # Whether the name is the organization's own; superusers see all accounts and give any name.
    own_names = True

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
        help_text=_("Leave it empty, and the person chooses one with a link."),
    )

    class Meta:
        model = User
        fields = ("username", "first_name", "last_name", "email")

    def clean(self) -> dict[str, Any]:
        """Complete the name; two accounts of one organization can't have the same."""
        cleaned = super().clean()
        name, organization = cleaned.get("username"), cleaned.get("organization")
        if self.own_names and name and organization is not None:
            end = f"@{organization.slug}"
            cleaned["username"] = name if name.endswith(end) else f"{name}{end}"
        return cleaned

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
    actions_detail = ("set_password", "give_link")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fixed = super().get_readonly_fields(request, obj)
        # Another name could be one that somebody has elsewhere.
        return fixed if obj is None or reach.of(request).everything else (*fixed, "username")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs["form"] = NewUserForm if obj is None else AccountForm
        form = super().get_form(request, obj, change=change, **kwargs)
        if obj is None:
            form.own_names = not reach.of(request).everything
            if form.own_names:
                form.base_fields["username"].help_text = _(
                    "People sign in with it. It ends in @ and the organization, which is added: kim@acme."
                )
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
        return may_manage(request, obj)

    def has_operate_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        row = self.get_object(request, object_id) if object_id else None
        return row is not None and may_manage(request, row)

    def organization_of(self, obj: Any) -> Organization | None:
        """An account is nobody's; its audit events go to the only organization it is a member of."""
        homes = Membership.objects.filter(user=obj).select_related("organization")[:2]
        return homes[0].organization if len(homes) == 1 else None

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            self._change(request, obj, form)
            return
        chosen = form.cleaned_data
        members.make(
            chosen["organization"],
            obj,
            chosen["role"],
            password=chosen["password"] or None,
            actor=changes.actor(request),
        )

    def _change(self, request: HttpRequest, obj: Any, form: Any) -> None:
        """Write what was changed and nothing else; whose account it is is judged again behind its lock."""
        person = accounts.locked(obj.pk)
        if not may_manage(request, person):
            raise PermissionDenied
        changed = [name for name in form.changed_data if name in _COLUMNS]
        if "is_active" in changed and not obj.is_active:
            left = leaving.switch_off(person, actor=changes.actor(request)).names()
            if left:
                text = gettext("Ended with the account: %(what)s.") % {"what": estates.tell(left)}
                self.message_user(request, text, level="warning")
            homes = Organization.objects.filter(memberships__user=person)
            if text := quorums.tell(quorums.stuck(homes)):
                self.message_user(request, text, level="warning")
        accounts.change(obj, changed, changes.of_form(form), actor=changes.actor(request))

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Somebody without a password needs a link next."""
        answer: HttpResponse = super().response_add(request, obj, post_url_continue)
        if obj.has_usable_password() or "_addanother" in request.POST:
            return answer
        return redirect("admin:portal_user_give_link", object_id=obj.pk)

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
            person = accounts.locked(row.pk)
            if not may_manage(request, person):
                raise PermissionDenied
            accounts.give_password(person, data["password"], actor=changes.actor(request))
            return gettext("The password is set; every session of %(user)s has ended.") % {
                "user": row.username
            }

        return operations.run(
            self,
            request,
            object_id,
            Operation(
                title=_("Set a new password"),
                text=_(
                    "Sessions and links that are open end. Tokens go on working; revoke them if need be. You will know"
                    " the password, and it stops working when the person joins another organization: a link is better."
                ),
                button=_("Set password"),
                form=PasswordForm,
                perform=perform,
            ),
        )

    def has_link_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """Superusers for anybody; admins for the members of theirs."""
        row = self.get_object(request, object_id) if object_id else None
        return row is not None and _may_give_link(request, row)

    @action(description=_("Give a link"), permissions=["link"], icon="link", url_path="link")
    def give_link(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Let the person choose a password: a link to their address, or shown once."""

        def perform(row: User, data: dict[str, Any]) -> Any:
            person = accounts.locked(row.pk)
            if not _may_give_link(request, person):
                raise PermissionDenied
            mailed = bool(links.are_mailed() and person.email)
            if not mailed and not may_manage(request, person):
                raise Problem(409, "belongs_elsewhere", str(_ELSEWHERE))
            assert isinstance(request.user, User)
            link, address = links.issue(person, made_by=request.user, actor=changes.actor(request))
            if mailed:
                transaction.on_commit(partial(links.send, link, address))
                return gettext("A link is on its way to %(email)s.") % {"email": person.email}
            text = _(
                "Hand the link to the person. It works once and for three days, and is never shown again."
            )
            return shown_once.page(self, request, person, plain=address, text=text)

        return operations.run(
            self,
            request,
            object_id,
            Operation(
                title=_("Give a link"),
                text=_MAILED if links.are_mailed() else _SHOWN,
                button=_("Make a link"),
                perform=perform,
            ),
        )


_MAILED = _(
    "With the link the person chooses a password that nobody else knows. It goes to their e-mail address (where they"
    " have none it is shown here), works once and for three days, and ends every link before it."
)
_SHOWN = _(
    "With the link the person chooses a password that nobody else knows. E-mail is not set up, so it is shown here"
    " once: hand it over. It works once and for three days, and ends every link before it."
)
_ELSEWHERE = _(
    "This person belongs to other organizations too, so nobody but them may see the link. It can't be sent: they have"
    " no e-mail address, or this portal sends none. Ask whoever runs the portal for a link."
)


def _may_give_link(request: HttpRequest, user: User) -> bool:
    found = reach.of(request)
    if found.everything:
        return True
    here = Membership.objects.filter(user=user, organization__in=found.writable)
    return not user.is_superuser and here.exists()
