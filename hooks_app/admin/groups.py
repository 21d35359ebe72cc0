"""Groups and absences."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from hooks_app.governance import quorums, tables, usage
from portal.admin.forms import ScopedFormSet
from portal.admin.scoping import ScopedAdmin, ScopedTabular
from portal.admin.site import site
from portal.models import Absence, Group, GroupMember


class MemberFormSet(ScopedFormSet):
    """Who is in the group: nobody is taken out whom a policy needs."""

    def clean(self) -> None:
        super().clean()
        group = self.instance
        if group._state.adding or any(self.errors):
            return
        chosen = {
            form.cleaned_data["user"].pk
            for form in self.forms
            if form not in self.deleted_forms and form.cleaned_data.get("user")
        }
        before = set(GroupMember.objects.filter(group=group).values_list("user_id", flat=True))
        # Of those who have no seat any more, nobody counts: whoever is switched off may be taken out.
        if not quorums.able_members(group, before - chosen):
            return
        for policy, shortfall in quorums.of_group(group, len(quorums.able_members(group, chosen))):
            text = gettext("Policy %(slug)s: %(message)s.")
            raise ValidationError(
                text % {"slug": policy.slug, "message": shortfall.message}, code=quorums.CODE
            )


class MemberInline(ScopedTabular):
    """Who is in the group."""

    model = GroupMember
    formset = MemberFormSet
    hide_title = True
    verbose_name = _("member")
    verbose_name_plural = _("members")


@admin.register(Group, site=site)
class GroupAdmin(ScopedAdmin):
    """Sets of members that policies name."""

    writer = tables.GROUPS
    title = _("Groups")
    about = _("Sets of members that policies name")
    section = "organization"
    place = 30
    icon = "groups"
    list_display = ("slug", "organization", "size")
    list_filter = (("organization", admin.RelatedOnlyFieldListFilter),)
    search_fields = ("slug", "memberships__user__username")
    list_select_related = ("organization",)
    inlines = (MemberInline,)

    def find_users(self, obj: Any) -> list[str]:
        return usage.of_group(obj)

    @admin.display(description=_("members"))
    def size(self, row: Group) -> str:
        """How many are in it."""
        count = row.memberships.count()
        return ngettext("%(count)d person", "%(count)d people", count) % {"count": count}


@admin.register(Absence, site=site)
class AbsenceAdmin(ScopedAdmin):
    """Who stands in for whom, and when."""

    writer = tables.ABSENCES
    title = _("Absences")
    about = _("Who stands in for whom")
    section = "organization"
    place = 40
    icon = "event_busy"
    list_display = ("user", "substitute", "first_day", "last_day", "organization")
    list_filter = (("organization", admin.RelatedOnlyFieldListFilter), "first_day")
    search_fields = ("user__username", "substitute__username")
    list_select_related = ("organization", "user", "substitute")
