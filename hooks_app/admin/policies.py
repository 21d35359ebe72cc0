"""Approval policies; a change holds for requests that are made afterwards."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from hookgate.matching import matching

from hooks_app.admin.fields import JSONText
from hooks_app.conditions import walks
from hooks_app.governance import quorums, tables, usage
from hooks_app.models import ApprovalPolicy
from hooks_app.models.policies import Scope
from hooks_app.registry import input_rows
from portal.admin.forms import ScopedForm
from portal.admin.scoping import ScopedAdmin
from portal.admin.site import site

_LATER = _(
    "This release stores these and can't carry them out: a policy that sets one makes registries unbuildable."
)


class PolicyForm(ScopedForm):
    """A policy whose parts agree."""

    stages = JSONText(label=_("Stages"), required=False)
    grants = JSONText(label=_("Grants"), required=False)
    escalate_to = JSONText(label=_("Escalate to"), required=False)

    class Meta:
        model = ApprovalPolicy
        fields = "__all__"  # the screen names its fields

    def clean_when(self) -> str | None:
        """CEL that compiles, or nothing."""
        when: str | None = self.cleaned_data["when"]
        if when:
            try:
                walks.compile(when)
            except matching.MatchError as error:
                raise ValidationError(error.message) from error
        return when

    def clean(self) -> dict[str, Any]:
        """A group goes with the scope “group” and with no other."""
        cleaned = super().clean()
        wants_group = cleaned.get("scope") == Scope.GROUP
        if wants_group and not cleaned.get("group") and "group" not in self.errors:
            self.add_error("group", _("Name the group whose members decide."))
        if not wants_group and cleaned.get("group"):
            self.add_error("group", _("Only the scope “a group” takes one; leave it empty."))
        for name, empty in (("stages", []), ("grants", {})):
            if cleaned.get(name) is None and name in cleaned:
                cleaned[name] = empty
        return cleaned

    def _post_clean(self) -> None:
        """As many people as it needs are there. Judged of the row as it would be saved."""
        super()._post_clean()
        organization = self.instance.organization_id
        if self.errors or organization is None:
            return
        for shortfall in quorums.shortfalls(self.instance):
            if shortfall.able:
                field = shortfall.path if shortfall.path in self.fields else "stages"
                self.add_error(field, shortfall.message)


@admin.register(ApprovalPolicy, site=site)
class ApprovalPolicyAdmin(ScopedAdmin):
    """Who may decide, how many must, how long they have."""

    form = PolicyForm
    writer = tables.POLICIES
    title = _("Approval policies")
    about = _("Who may decide, how many must, how long they have")
    section = "governance"
    place = 20
    icon = "gavel"
    list_display = ("slug", "organization", "scope", "group", "quorum", "timeout_seconds", "ready")
    list_filter = (("organization", admin.RelatedOnlyFieldListFilter), "scope")
    search_fields = ("slug", "group__slug")
    list_select_related = ("organization", "group")
    fieldsets = (
        (None, {"fields": ("organization", "slug", "position")}),
        (
            _("Who decides"),
            {
                "fields": (
                    "scope", "group", "quorum", "reject_quorum", "forbid_self_approval", "require_known_initiator",
                    "require_reject_reason",
                )
            },
        ),
        (_("How long"), {"fields": ("timeout_seconds", "start_by_seconds")}),
        (
            _("For later releases"),
            {
                "classes": ("collapse",),
                "description": _LATER,
                "fields": (
                    "when", "allow_edit_args", "remind_after_seconds", "escalate_after_seconds", "escalate_to",
                    "stages", "grants", "sticky_denial_seconds",
                ),
            },
        ),
    )  # fmt: skip

    def find_users(self, obj: Any) -> list[str]:
        return usage.of_policy(obj)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        for shortfall in quorums.shortfalls(form.instance):
            self.message_user(request, f"{form.instance.slug}: {shortfall.message}.", level="warning")

    @admin.display(description=_("can be carried out"), boolean=True)
    def ready(self, row: ApprovalPolicy) -> bool:
        """Whether it asks for nothing that this release lacks."""
        return not input_rows.unavailable(row)
