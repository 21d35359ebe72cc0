"""Who belongs to an organization, and as what."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from channels_app import identities
from channels_app.models import Identity
from hooks_app.models import Agent
from portal.admin import changes
from portal.admin.scoping import ScopedAdmin
from portal.admin.site import site
from portal.lib.problems import FieldError, Problem
from portal.models import GroupMember, Membership, Role


@admin.register(Membership, site=site)
class MembershipAdmin(ScopedAdmin):
    """A membership that ends takes bindings, groups and ownership with it; the account stays."""

    kind = "member"
    title = _("Memberships")
    about = _("Who belongs here, and as what")
    section = "organization"
    place = 25
    icon = "card_membership"
    list_display = ("user", "organization", "role", "created_at")
    list_filter = (("organization", admin.RelatedOnlyFieldListFilter), "role")
    search_fields = ("user__username", "user__email", "user__first_name", "user__last_name")
    list_select_related = ("organization", "user")
    fields = ("organization", "user", "role")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("organization", "user") if obj is not None else ()

    def name_of(self, obj: Any) -> str:
        return f"{obj.organization.slug}/{obj.user.username}"

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change and obj.role != Role.ADMIN:
            _keep_an_admin(obj, "role")
        obj.save()

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        _keep_an_admin(obj, "")
        for identity in Identity.objects.filter(organization=obj.organization, user=obj.user):
            identities.unbind(identity, actor=changes.actor(request))
        GroupMember.objects.filter(group__organization=obj.organization, user=obj.user).delete()
        Agent.objects.filter(organization=obj.organization, owner=obj.user).update(owner=None)
        super().delete_model(request, obj)


def _keep_an_admin(membership: Membership, field: str) -> None:
    """Raises 400 when nobody would be left who may change the organization."""
    others = Membership.objects.filter(
        organization=membership.organization, role=Role.ADMIN, user__is_active=True
    ).exclude(pk=membership.pk)
    was_admin = Membership.objects.filter(pk=membership.pk, role=Role.ADMIN).exists()
    if was_admin and not others.exists():
        text = gettext("This is the organization's only active admin; make somebody else admin first.")
        raise Problem(400, "last_admin", text, errors=[FieldError(field, "last_admin", text)])
