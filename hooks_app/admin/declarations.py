"""One declared hook: an entry of the catalogue with its typed parameters, or a handler of the agent's own."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _
from hookgate.catalogue import CATALOGUE, CatalogueEntry
from hookgate.events import HookEvent
from unfold.widgets import UnfoldAdminRadioSelectWidget, UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget

from hooks_app.admin import drafts, params
from hooks_app.admin.fields import JSONText
from hooks_app.governance import tables
from hooks_app.models import Agent, Declaration
from hooks_app.registry import manifest_hooks
from portal.admin import reach
from portal.admin.forms import ScopedForm
from portal.admin.scoping import ScopedAdmin
from portal.admin.site import site
from portal.lib.problems import FieldError, Problem
from portal.models import Organization

Names = tuple[str, ...]
_COMMON: Names = (
    "tool_filter",
    "when",
    "priority",
    "on_error",
    "timeout_seconds",
    "enabled",
    "mode",
    "position",
)
# What the hooks that are attached to every agent let nobody set.
_OF_ATTACHED = ("position",)
_OF_GATE = ("asks", "tool_filter", "when", "allow_unmatched", "position")


class DeclarationForm(ScopedForm):
    """What every declaration has. Texts that are left empty are not declared."""

    when = forms.CharField(
        label=_("When"),
        required=False,
        empty_value=None,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2, "class": "hookgate-code", "spellcheck": "false"}),
        help_text=_("A condition in CEL, such as args.amount >= 50000. Empty: always."),
    )

    class Meta:
        model = Declaration
        fields: Names = _COMMON
        labels = {"tool_filter": _("Tool filter"), "timeout_seconds": _("Timeout (seconds)")}
        help_texts = {
            "tool_filter": _("A glob of tool names, such as oa__*. Empty: every tool."),
            "priority": _("0 to 899, lower runs first. Empty: the hook's own."),
            "on_error": _("What an error, a timeout or a wrong result means. Empty: the hook's own."),
            "mode": _("“observe” runs it and traces its verdict, but changes nothing."),
        }

    # The agent whose hook it is: for one that is being added.
    agent: Agent | None = None

    def _organization(self) -> Organization | None:
        agent = self.agent if self.instance._state.adding else self.instance.agent
        return agent.organization if agent is not None else None

    def clean(self) -> dict[str, Any]:
        """Errors of ``params.KEY`` and of the handler belong to their inputs."""
        if self.problem is not None:
            moved = [FieldError(self._field_of(e.path), e.code, e.message) for e in self.problem.errors]
            self.problem = Problem(self.problem.status, self.problem.code, self.problem.detail, errors=moved)
        return super().clean()

    def _field_of(self, path: str) -> str:
        if path.startswith("params."):
            return params.PREFIX + path.removeprefix("params.").partition("[")[0]
        return path if path in self.fields else "handler" if "handler" in self.fields else path


class GateForm(DeclarationForm):
    """A gate entry. What it asks for is chosen, so that an empty field is never taken for every tool, nor for none."""

    asks = forms.ChoiceField(
        label=_("Asks people before"),
        choices=[
            ("every", _("every tool")),
            ("matching", _("the tools that fit the filter, where the condition holds if there is one")),
            ("condition", _("every call for which the condition holds")),
            (
                "nothing",
                _("nothing by itself: it only says who is asked about calls that are asked about anyway"),
            ),
        ],
        widget=UnfoldAdminRadioSelectWidget,
    )

    class Meta(DeclarationForm.Meta):
        fields: Names = ("tool_filter", "when", "allow_unmatched", "position")
        labels = {
            **DeclarationForm.Meta.labels,
            "allow_unmatched": _("I mean it: publish although no known tool fits the filter"),
        }
        help_texts = {
            **DeclarationForm.Meta.help_texts,
            "tool_filter": _("A glob of tool names, such as oa__*_pay."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row = self.instance
        self.fields["when"].help_text = _("A condition in CEL, such as args.amount >= 50000.")
        if not row._state.adding:
            self.fields["asks"].initial = _chosen(row)

    def clean(self) -> dict[str, Any]:
        """The choice and the fields below it say the same."""
        cleaned = super().clean()
        chosen, tools, when = cleaned.get("asks"), cleaned.get("tool_filter"), cleaned.get("when")
        if chosen == "every":
            if when or tools not in (None, "", "*"):
                self.add_error(
                    "asks", _("Every tool has no filter and no condition: empty them, or choose another.")
                )
            cleaned["tool_filter"] = "*"
        if chosen == "matching" and not tools and "tool_filter" not in self.errors:
            self.add_error("tool_filter", _("Name the tools."))
        if chosen == "condition":
            if not when and "when" not in self.errors:
                self.add_error("when", _("Write the condition."))
            if tools:
                self.add_error(
                    "asks", _("There is a filter too: choose “the tools that fit the filter”, or empty it.")
                )
        if chosen == "nothing" and (tools or when):
            self.add_error("asks", _("A filter or a condition makes it ask: empty them, or choose another."))
        return cleaned


def _chosen(row: Declaration) -> str:
    if row.tool_filter == "*" and not row.when:
        return "every"
    if row.tool_filter:
        return "matching"
    return "condition" if row.when else "nothing"


class HandlerForm(DeclarationForm):
    """A handler in the shape of hooks.json."""

    event = forms.ChoiceField(
        label=_("Event"),
        choices=[(event.value, event.value) for event in HookEvent],
        widget=UnfoldAdminSelectWidget,
    )
    handler = JSONText(label=_("Handler"), initial={"type": "python", "target": "package.module:callable"})

    class Meta(DeclarationForm.Meta):
        fields: Names = ("event", "group_index", "matcher", "handler", *_COMMON)
        help_texts = {
            **DeclarationForm.Meta.help_texts,
            "matcher": _("Empty or * matches every tool; else names joined by |, or a regular expression."),
            "group_index": _("Handlers of one event with the same number share a group."),
        }


@admin.register(Declaration, site=site)
class DeclarationAdmin(ScopedAdmin):
    """Reached from its agent's page. A change is part of the agent's draft."""

    writer = tables.HOOKS
    title = _("Hooks")
    about = _("What each agent declares, entry by entry")
    organization_path = "agent__organization"
    place = 15
    icon = "phishing"
    section = "governance"
    list_display = ("hook", "agent", "tool_filter", "mode", "enabled", "position")
    list_filter = (("agent", admin.RelatedOnlyFieldListFilter), "source", "enabled", "mode")
    search_fields = ("name", "event", "tool_filter", "agent__slug")
    list_select_related = ("agent__organization",)
    ordering = ("agent__slug", "position")

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Only for an agent, and only a hook that there is."""
        agent, hook = _agent(request), request.GET.get("hook")
        if agent is None:
            return redirect("admin:hooks_app_agent_changelist")
        if hook is not None and hook not in CATALOGUE:
            return redirect("admin:hooks_app_agent_add_hook", agent.pk)
        answer: HttpResponse = super().add_view(request, form_url, extra_context)
        return answer

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        name = _hook(request, obj)
        base = GateForm if manifest_hooks.is_gate(name) else DeclarationForm
        kwargs["form"] = params.form_class(base, CATALOGUE[name], obj) if name else HandlerForm
        form = super().get_form(request, obj, change=change, **kwargs)
        # A field that a form names itself is drawn wherever it stands; an attached hook offers fewer.
        shown = flatten_fieldsets(self.get_fieldsets(request, obj))
        form.base_fields = {name: field for name, field in form.base_fields.items() if name in shown}
        form.agent = obj.agent if obj is not None else _agent(request)
        return form

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        name = _hook(request, obj)
        if not name:
            return [
                (_("Handler"), {"fields": ("event", "matcher", "handler", "group_index")}),
                (_("When and how it runs"), {"fields": _COMMON}),
            ]
        entry = CATALOGUE[name]
        inputs = params.names(entry)
        first = [(_("Parameters"), {"fields": inputs, "description": entry.summary})] if inputs else []
        return [*first, (_("When and how it runs"), {"fields": _settable(entry)})]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.agent = _agent(request)
            obj.name = _hook(request, None) or ""
            obj.source = Declaration.Source.CLASS_HOOKS if obj.name else Declaration.Source.EVENTS
        if obj.name:
            obj.params = params.collect(form, CATALOGUE[obj.name])
        for name in ("tool_filter", "on_error"):
            setattr(obj, name, getattr(obj, name) or None)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        drafts.refuse_faulty(form.instance)

    def columns(self, form: Any) -> list[str]:
        return [*super().columns(form), "params"]

    def response_post_save_add(self, request: HttpRequest, obj: Any) -> HttpResponse:
        return redirect("admin:hooks_app_agent_change", obj.agent_id)

    def response_post_save_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        return redirect("admin:hooks_app_agent_change", obj.agent_id)

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: str) -> HttpResponse:
        return redirect("admin:hooks_app_agent_changelist")

    @admin.display(description=_("hook"))
    def hook(self, row: Declaration) -> str:
        """Its name, or the event that its handler answers."""
        return str(row)


def _settable(entry: CatalogueEntry) -> Names:
    if manifest_hooks.is_gate(entry.name):
        return _OF_GATE
    return _OF_ATTACHED if entry.attached else _COMMON


def _agent(request: HttpRequest) -> Agent | None:
    """The agent that a new hook is for, if the person may change it."""
    try:
        row = Agent.objects.select_related("organization").filter(pk=request.GET.get("agent", "")).first()
    except (ValueError, forms.ValidationError):
        return None
    found = reach.of(request)
    may = row is not None and (found.everything or row.organization_id in found.writable)
    return row if may else None


def _hook(request: HttpRequest, declaration: Declaration | None) -> str | None:
    name = declaration.name if declaration is not None else request.GET.get("hook")
    return name if name in CATALOGUE else None
