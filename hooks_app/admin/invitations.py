"""Who is asked to join. Whether there is somebody of a name is nobody's business but theirs."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from hooks_app.governance import members
from portal.admin import changes
from portal.admin.forms import ScopedForm
from portal.admin.scoping import ScopedAdmin
from portal.admin.showing import Word
from portal.admin.site import site
from portal.models import Invitation, User


class InvitationForm(ScopedForm):
    """A user name and a role."""

    class Meta:
        model = Invitation
        fields = ("organization", "name", "role")
        labels = {"name": _("User name")}
        help_texts = {
            "name": _(
                "Of somebody who has an account already. They read the invitation in their inbox and accept it there;"
                " nothing here tells whether there is such an account."
            )
        }

    def clean_name(self) -> str:
        """As names of accounts are written."""
        name = str(User.normalize_username(self.cleaned_data["name"]))
        UnicodeUsernameValidator()(name)
        return name


@admin.register(Invitation, site=site)
class InvitationAdmin(ScopedAdmin):
    """An invitation that is accepted becomes a membership and is gone from here."""

    form = InvitationForm
    kind = "invitation"
    title = _("Invitations")
    about = _("Who is asked to join")
    section = "organization"
    place = 27
    icon = "forward_to_inbox"
    changeable = False
    list_display = ("name", "organization", "role", "state", "made_by", "created_at")
    list_filter = (("organization", admin.RelatedOnlyFieldListFilter), "role")
    search_fields = ("name",)
    list_select_related = ("organization", "made_by")
    readonly_fields = ("state", "made_by", "created_at")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        asked = ("organization", "name", "role")
        return asked if obj is None else (*asked, *self.readonly_fields)

    @display(description=_("state"), label={"pending": "info", "declined": "danger"})
    def state(self, row: Invitation) -> Word:
        """In one word."""
        return Word("declined", _("declined")) if row.declined_at else Word("pending", _("open"))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        assert isinstance(request.user, User)
        made = members.invite(
            form.cleaned_data["organization"],
            form.cleaned_data["name"],
            form.cleaned_data["role"],
            made_by=request.user,
            actor=changes.actor(request),
        )
        obj.__dict__.update(made.__dict__)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        members.withdraw(obj, actor=changes.actor(request))
