"""Groups and absences."""

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from portal.admin.scoping import ScopedAdmin, ScopedTabular
from portal.admin.site import site
from portal.models import Absence, Group, GroupMember


class MemberInline(ScopedTabular):
    """Who is in the group."""

    model = GroupMember
    hide_title = True
    verbose_name = _("member")
    verbose_name_plural = _("members")


@admin.register(Group, site=site)
class GroupAdmin(ScopedAdmin):
    """Sets of members that policies name."""

    kind = "group"
    title = _("Groups")
    about = _("Sets of members that policies name")
    section = "organization"
    place = 30
    icon = "groups"
    outdates = True
    list_display = ("slug", "organization", "size")
    list_filter = (("organization", admin.RelatedOnlyFieldListFilter),)
    search_fields = ("slug", "memberships__user__username")
    list_select_related = ("organization",)
    inlines = (MemberInline,)

    @admin.display(description=_("members"))
    def size(self, row: Group) -> str:
        """How many are in it."""
        count = row.memberships.count()
        return ngettext("%(count)d person", "%(count)d people", count) % {"count": count}


@admin.register(Absence, site=site)
class AbsenceAdmin(ScopedAdmin):
    """Who stands in for whom, and when."""

    kind = "absence"
    title = _("Absences")
    about = _("Who stands in for whom")
    section = "organization"
    place = 40
    icon = "event_busy"
    list_display = ("user", "substitute", "first_day", "last_day", "organization")
    list_filter = (("organization", admin.RelatedOnlyFieldListFilter), "first_day")
    search_fields = ("user__username", "substitute__username")
    list_select_related = ("organization", "user", "substitute")

    def name_of(self, obj: Any) -> str:
        return f"{obj.organization.slug}/{obj.user.username}/{obj.first_day.isoformat()}"
