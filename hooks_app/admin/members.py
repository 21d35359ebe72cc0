"""Who belongs to an organization, and as what."""

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget

from hooks_app.admin import estates
from hooks_app.governance import leaving, members, quorums
from portal.admin import changes, operations
from portal.admin.operations import Operation
from portal.admin.scoping import ScopedAdmin
from portal.admin.site import site
from portal.models import Membership, User


class LeavingForm(forms.Form):
    """What becomes of keys and agents."""

    keys = forms.ChoiceField(
        label=_("Runtime keys and agents"),
        choices=[
            ("revoke", _("Revoke the keys: runtimes that use them stop; the agents have no owner")),
            ("take", _("Take them over: they go on and are yours; whoever has the keys still knows them")),
        ],
        initial="revoke",
        required=False,
        widget=UnfoldAdminSelectWidget,
    )


@admin.register(Membership, site=site)
class MembershipAdmin(ScopedAdmin):
    """Who is a member has said so, or was made one; others are invited. What ends with a membership is named."""

    kind = "member"
    title = _("Memberships")
    about = _("Who belongs here, and as what")
    section = "organization"
    place = 25
    creatable = False
    icon = "card_membership"
    list_display = ("user", "organization", "role", "created_at")
    list_filter = (("organization", admin.RelatedOnlyFieldListFilter), "role")
    search_fields = ("user__username", "user__email", "user__first_name", "user__last_name")
    list_select_related = ("organization", "user")
    fields = ("organization", "user", "role")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("organization", "user") if obj is not None else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        members.set_role(obj, form.cleaned_data["role"], actor=changes.actor(request))
        self._warn_of_stuck(request, obj)

    def _warn_of_stuck(self, request: HttpRequest, row: Membership) -> None:
        """Name the pending requests that nobody who is left can approve."""
        if text := quorums.tell(quorums.stuck([row.organization])):
            self.message_user(request, text, level="warning")

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Names what ends with the membership, and asks what becomes of keys and agents."""
        row = self.get_object(request, object_id)
        if row is not None and not self.has_delete_permission(request, row):
            raise PermissionDenied

        def perform(row: Membership, data: dict[str, Any]) -> str:
            assert isinstance(request.user, User)
            heir = request.user if data["keys"] == "take" and request.user.pk != row.user_id else None
            left = leaving.leave(row, actor=changes.actor(request), heir=heir).names()
            self._warn_of_stuck(request, row)
            text = gettext("%(user)s is no member any more.") % {"user": row.user.username}
            if not left:
                return text
            ended = gettext("Ended with it: %(what)s.") % {"what": estates.tell(left)}
            return f"{text} {ended}"

        return operations.run(
            self,
            request,
            object_id,
            Operation(
                title=_("End the membership"),
                text=_("The account stays; what the person made here or was given here ends at once."),
                button=_("End it"),
                danger=True,
                form=LeavingForm,
                template="admin/portal/membership/leave.html",
                context={"estate": estates.rows(leaving.of_membership(row).names()) if row else []},
                perform=perform,
            ),
        )
