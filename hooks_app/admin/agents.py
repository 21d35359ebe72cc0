"""Agents: what holds at once, the draft, and what is published."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from hooks_app import switches
from hooks_app.admin import agent_pages, halt_pages
from hooks_app.admin.connectors import ToolForm
from hooks_app.admin.fields import AgentChoices, PolicyChoice
from hooks_app.governance import tables
from hooks_app.models import Agent, AgentTool, ApprovalChannel, Declaration, FallbackChannel, RegistryHead
from hooks_app.registry import fleet, gate_words, heads, manifest_hooks, publishing
from portal.admin.forms import ScopedForm
from portal.admin.scoping import Alert, ScopedAdmin, ScopedStacked, ScopedTabular
from portal.admin.showing import Word
from portal.admin.site import site

_COLOURS = {
    "running": "success",
    "behind": "warning",
    "gone": "warning",
    "unseen": "info",
    "unpublished": "warning",
    "unbuildable": "danger",
    "halted": "danger",
    "off": "info",
}
_STATES = {
    "running": _("running"),
    "behind": _("behind"),
    "gone": _("no runtime any more"),
    "unseen": _("no runtime yet"),
    "unpublished": _("never published"),
    "unbuildable": _("can’t be built"),
    "halted": _("halted"),
    "off": _("off"),
}


class AgentForm(ScopedForm):
    """An agent's own settings."""

    approval_policy = PolicyChoice()
    may_delegate_to = AgentChoices(label=_("May delegate to"))

    class Meta:
        model = Agent
        fields = "__all__"  # the screen names its fields
        help_texts = {
            "protected": _(
                "The draft is kept and isn't published while this is on. It is no lock: who may change the agent may"
                " switch it off; that is on record."
            )
        }


class ApprovalChannelInline(ScopedTabular):
    """Where the cards go."""

    model = ApprovalChannel
    fields = ("channel", "position")
    hide_title = True
    verbose_name = _("approval channel")
    verbose_name_plural = _("approval channels")


class FallbackChannelInline(ScopedTabular):
    """Where they go when none of those can be reached."""

    model = FallbackChannel
    fields = ("channel", "position")
    hide_title = True
    verbose_name = _("fallback channel")
    verbose_name_plural = _("fallback channels")


class ToolInline(ScopedStacked):
    """Tools without a connector."""

    model = AgentTool
    form = ToolForm
    verbose_name = _("tool")
    verbose_name_plural = _("tools without a connector")
    collapsible = True


class DeclarationInline(ScopedTabular):
    """The hooks in order; each has a page of its own."""

    model = Declaration
    fields = ("hook", "tool_filter", "when", "asks", "mode", "enabled", "position")
    readonly_fields = ("hook", "tool_filter", "when", "asks", "mode", "enabled")
    hide_title = True
    verbose_name = _("hook")
    verbose_name_plural = _("declared hooks")
    # Of the agent's organization; an inline lives as long as its page is drawn.
    policies: gate_words.Policies | None = None

    def has_add_permission(self, request: HttpRequest, obj: Any) -> bool:
        return False

    @admin.display(description=_("what a gate asks"))
    def asks(self, row: Declaration) -> str:
        """In a sentence; a dash for other hooks."""
        if not manifest_hooks.is_gate(row.name):
            return "–"
        if self.policies is None:
            self.policies = gate_words.policies_of(row.agent.organization)
        return gate_words.sentence(row, self.policies)

    @admin.display(description=_("hook"))
    def hook(self, row: Declaration) -> SafeString:
        """Its name, or the event that its handler answers."""
        url = reverse("admin:hooks_app_declaration_change", args=[row.pk])
        return format_html('<a class="hookgate-link" href="{}">{}</a>', url, row)


# Of each kind, on the overview; the list has them all.
_MOST_ALERTS = 20


def _page(agent: Agent) -> str:
    return reverse("admin:hooks_app_agent_change", args=[agent.pk])


def _unbuildable(agent: Agent) -> Alert:
    text = _("Agent %(agent)s: its registry can’t be built, and no tool runs.")
    return Alert(str(text) % {"agent": agent.slug}, _page(agent))


def _unmatched(head: RegistryHead) -> Alert:
    count = len(head.warnings)
    text = ngettext(
        "Agent %(agent)s: %(count)d filter, matcher or condition may match nothing.",
        "Agent %(agent)s: %(count)d filters, matchers or conditions may match nothing.",
        count,
    )
    return Alert(text % {"agent": head.agent.slug, "count": count}, _page(head.agent), bad=False)


@admin.register(Agent, site=site)
class AgentAdmin(ScopedAdmin):
    """The page edits the draft; what is published holds until somebody publishes again."""

    form = AgentForm
    writer = tables.AGENTS
    title = _("Agents")
    about = _("Programs that act, their hooks, and what they are served")
    section = "governance"
    place = 10
    icon = "robot_2"
    deletable = False
    list_display = ("slug", "name", "organization", "owner", "state", "published", "warnings")
    list_filter = (
        ("organization", admin.RelatedOnlyFieldListFilter),
        "enabled",
        "halted",
        "confirmation_mode",
    )
    search_fields = ("slug", "name", "owner__username")
    list_select_related = ("organization", "owner")
    fieldsets = (
        (None, {"fields": ("organization", "slug", "name", "owner", "enabled", "protected")}),
        (
            _("Who is asked"),
            {
                "fields": (
                    "confirmation_mode", "approval_policy", "require_confirmation_for_all", "unlisted_tools",
                    "max_pending",
                )
            },
        ),
        (
            _("More"),
            {
                "classes": ("collapse",),
                "fields": ("may_delegate_to", "barrier", "revalidate_after_seconds", "max_stale_seconds"),
            },
        ),
    )  # fmt: skip
    inlines = (ApprovalChannelInline, FallbackChannelInline, DeclarationInline, ToolInline)
    change_form_outer_before_template = "admin/hooks_app/agent/state.html"
    actions_detail = ("publish", "registry", "add_hook", "halt", "resume", "rollback")

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        # A new agent is saved first: hooks and channels refer to it.
        return self.inlines if obj is not None else ()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        context = agent_pages.state(row) if row is not None and request.method == "GET" else {}
        answer: HttpResponse = super().change_view(
            request, object_id, form_url, {**(extra_context or {}), **context}
        )
        return answer

    # Which buttons

    def has_publish_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """While the draft is another than what is published."""
        return self._apt(request, object_id, publishing.is_dirty)

    def has_halt_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """While it runs."""
        return self._apt(request, object_id, lambda row: not switches.is_halted(row))

    def has_resume_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """While it is halted."""
        return self._apt(request, object_id, lambda row: bool(row.halted))

    def _apt(self, request: HttpRequest, object_id: str | None, is_apt: Any) -> bool:
        if not self.has_operate_permission(request, object_id):
            return False
        row = self.get_object(request, object_id) if object_id else None
        return row is None or bool(is_apt(row))

    def alerts(self, request: HttpRequest) -> list[Alert]:
        """Agents that no tool runs for, and those in whose registry something matches nothing."""
        enabled = self.get_queryset(request).filter(enabled=True)
        heads.refresh(enabled)
        shown = RegistryHead.objects.filter(agent__in=enabled).select_related("agent").order_by("agent__slug")
        broken = [_unbuildable(head.agent) for head in shown.exclude(errors=[])[:_MOST_ALERTS]]
        return broken + [
            _unmatched(head) for head in shown.filter(errors=[]).exclude(warnings=[])[:_MOST_ALERTS]
        ]

    # What the list shows

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found = super().get_changelist_instance(request)
        heads.refresh(Agent.objects.filter(pk__in=[row.pk for row in found.result_list]))
        states = fleet.states(found.result_list)
        dirty = publishing.dirty(found.result_list)
        warnings = dict(
            RegistryHead.objects.filter(agent__in=found.result_list).values_list("agent_id", "warnings")
        )
        for row in found.result_list:
            row.fleet_state = states[row.pk]
            row.draft_differs = row.pk in dirty
            row.registry_warnings = warnings.get(row.pk, [])
        return found

    @display(description=_("warnings"), label={"some": "warning"})
    def warnings(self, row: Any) -> Word | str:
        """How many filters, matchers and conditions of the published registry match nothing."""
        count = len(row.registry_warnings)
        text = ngettext("%(count)d warning", "%(count)d warnings", count) % {"count": count}
        return Word("some", text) if count else "–"

    @display(description=_("state"), label=_COLOURS)
    def state(self, row: Any) -> Word:
        """In one word; green only while a runtime asks for it."""
        return Word(row.fleet_state, _STATES[row.fleet_state])

    @display(description=_("registry"), label={"published": "success", "draft": "warning"})
    def published(self, row: Any) -> Word:
        """Whether the draft is what holds."""
        return Word("draft", _("draft differs")) if row.draft_differs else Word("published", _("published"))

    # Buttons

    @action(description=_("Publish"), permissions=["publish"], icon="publish", variant=ActionVariant.PRIMARY)
    def publish(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Make the draft what holds."""
        return agent_pages.publish(self, request, object_id)

    @action(description=_("Registry"), permissions=["view_row"], icon="data_object")
    def registry(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """What runtimes are served, and what the draft would make of it."""
        return agent_pages.registry_page(self, request, object_id)

    @action(description=_("Add a hook"), permissions=["operate"], icon="add")
    def add_hook(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Choose one from the catalogue."""
        return agent_pages.choose_hook(self, request, object_id)

    @action(description=_("Halt"), permissions=["halt"], icon="block", variant=ActionVariant.DANGER)
    def halt(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The kill switch of this agent."""
        return halt_pages.halt(self, request, object_id)

    @action(description=_("Resume"), permissions=["resume"], icon="play_arrow", variant=ActionVariant.PRIMARY)
    def resume(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Take it back."""
        return halt_pages.resume(self, request, object_id)

    @action(description=_("Roll back"), permissions=["operate"], icon="undo")
    def rollback(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Publish an earlier revision again."""
        return agent_pages.rollback(self, request, object_id)

    def has_view_row_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """For pages that only show."""
        row = self.get_object(request, object_id) if object_id else None
        return self.has_view_permission(request, row) if object_id is None or row is not None else False
