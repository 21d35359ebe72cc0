"""Organizations and their switches."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from hooks_app import switches
from hooks_app.admin import halt_pages
from hooks_app.admin.fields import PolicyChoice
from hooks_app.governance import halting, tables
from portal.admin import changes, operations, reach, showing
from portal.admin.forms import ScopedForm
from portal.admin.operations import Operation
from portal.admin.scoping import ScopedAdmin
from portal.admin.showing import Word
from portal.admin.site import site
from portal.models import Organization


class OrganizationForm(ScopedForm):
    """An organization's own settings."""

    approval_policy = PolicyChoice(required=True, initial="default", help_text="")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("instance") is None:
            self.reachable = ()  # a new one has no policies yet
        super().__init__(*args, **kwargs)

    def _organization(self) -> Organization | None:
        return None if self.instance._state.adding else self.instance

    class Meta:
        model = Organization
        fields = "__all__"  # the screen names its fields


@admin.register(Organization, site=site)
class OrganizationAdmin(ScopedAdmin):
    """Tenants. Superusers make them; they are never deleted here."""

    form = OrganizationForm
    writer = tables.ORGANIZATIONS
    title = _("Organizations")
    about = _("Switches, and what agents share")
    organization_path = "pk"
    section = "organization"
    place = 10
    icon = "domain"
    deletable = False
    list_display = ("slug", "name", "time_zone", "state", "approval_policy")
    list_filter = ("read_only", "halted")
    search_fields = ("slug", "name")
    readonly_fields = ("state", "halted_because", "halted_until")
    fieldsets = (
        (None, {"fields": ("slug", "name", "time_zone")}),
        (_("Switches"), {"fields": ("state", "halted_because", "halted_until")}),
        (
            _("What agents share"),
            {
                "fields": (
                    "approval_policy",
                    "revalidate_after_seconds",
                    "max_stale_seconds",
                    "retention_days",
                )
            },
        ),
    )
    add_fieldsets = (
        (None, {"fields": ("slug", "name", "time_zone")}),
        (
            _("What agents share"),
            {
                "fields": (
                    "approval_policy",
                    "revalidate_after_seconds",
                    "max_stale_seconds",
                    "retention_days",
                )
            },
        ),
    )
    actions_detail = ("halt", "resume", "set_read_only", "set_writable")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return reach.of(request).everything

    def organization_of(self, obj: Any) -> Organization | None:
        return obj if isinstance(obj, Organization) else None

    def has_halt_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """While it runs."""
        return self._switchable(request, object_id, lambda row: not switches.is_halted(row))

    def has_resume_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """While it is halted."""
        return self._switchable(request, object_id, lambda row: bool(row.halted))

    def has_lock_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """While tools may write."""
        return self._switchable(request, object_id, lambda row: not row.read_only)

    def has_unlock_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """While they may not."""
        return self._switchable(request, object_id, lambda row: bool(row.read_only))

    def _switchable(self, request: HttpRequest, object_id: str | None, is_apt: Any) -> bool:
        if not self.has_operate_permission(request, object_id):
            return False
        row = self.get_object(request, object_id) if object_id else None
        return row is None or bool(is_apt(row))

    @display(description=_("state"), label={"running": "success", "read_only": "warning", "halted": "danger"})
    def state(self, row: Organization) -> Word:
        """In one word."""
        if switches.is_halted(row):
            return Word("halted", _("halted"))
        return Word("read_only", _("read-only")) if row.read_only else Word("running", _("running"))

    @admin.display(description=_("halted because"))
    def halted_because(self, row: Organization) -> str:
        """The reason that everybody is told."""
        return row.halt_reason if switches.is_halted(row) else "–"

    @admin.display(description=_("halted until"))
    def halted_until(self, row: Organization) -> str:
        """A dash means: until somebody resumes."""
        return showing.at(row.halt_until if switches.is_halted(row) else None, row)

    @action(
        description=_("Halt all agents"), permissions=["halt"], icon="block", variant=ActionVariant.DANGER
    )
    def halt(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The kill switch."""
        return halt_pages.halt(self, request, object_id)

    @action(description=_("Resume"), permissions=["resume"], icon="play_arrow", variant=ActionVariant.PRIMARY)
    def resume(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Take it back."""
        return halt_pages.resume(self, request, object_id)

    @action(description=_("Read-only on"), permissions=["lock"], icon="lock")
    def set_read_only(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """No tool that writes runs."""
        return self._set(request, object_id, read_only=True)

    @action(
        description=_("Read-only off"),
        permissions=["unlock"],
        icon="lock_open",
        variant=ActionVariant.PRIMARY,
    )
    def set_writable(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Tools that write run again."""
        return self._set(request, object_id, read_only=False)

    def _set(self, request: HttpRequest, object_id: str, *, read_only: bool) -> HttpResponse:
        def perform(row: Organization, data: dict[str, Any]) -> str:
            halting.set_read_only(organization=row, read_only=read_only, actor=changes.actor(request))
            return (
                gettext("No tool that writes runs now.")
                if read_only
                else gettext("Tools that write run again.")
            )

        text = (
            _("Tools that write do not run, approved or not; reading goes on.")
            if read_only
            else _("Tools that write run again, under the rules that hold now.")
        )
        title = _("Switch read-only mode on") if read_only else _("Switch read-only mode off")
        return operations.run(
            self, request, object_id, Operation(title=title, text=text, button=_("Switch"), perform=perform)
        )
