"""Admin classes whose rows, choices and permissions end where the person's organizations end."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django.contrib.admin import ShowFacets
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import ForeignKey, Model, QuerySet
from django.forms.utils import pretty_name
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext
from unfold.admin import ModelAdmin, StackedInline, TabularInline

from portal import audit
from portal.admin import changes, queries, reach, showing
from portal.admin.forms import ScopedForm, ScopedFormSet
from portal.lib.problems import Problem
from portal.models import Organization, User

FIXED = ("organization", "slug")


class Alert(NamedTuple):
    """What whoever looks at the overview must hear of: one line, and where to look. ``bad``: it stops work."""

    text: str
    link: str
    bad: bool = True


class Writer(Protocol):
    """Who writes a screen's rows: see :class:`hooks_app.governance.tables.Table`, which says what a write is."""

    @property
    def kind(self) -> str: ...

    def save(
        self,
        row: Model,
        data: dict[str, Any],
        *,
        actor: audit.Actor,
        columns: Collection[str] | None = None,
        parts: Sequence[Model] = (),
        gone: Sequence[Model] = (),
    ) -> str: ...

    def delete(self, row: Model, *, actor: audit.Actor) -> None: ...


class ScopedAdmin(ModelAdmin):
    """Rows of organizations: admins change them, auditors look, nobody else sees them.

    ``organization_path`` leads from a row to its organization. ``writer`` writes the rows with their inlines; a screen
    without one calls its own in ``save_model`` and ``delete_model``. ``kind`` is the audit trail's word for a row, by
    default the writer's. ``place`` is the order in the sidebar's ``section``, ``title`` and ``about`` what it says.
    """

    form = ScopedForm
    organization_path = "organization"
    writer: Writer | None = None
    kind = ""
    title: Any = ""
    about: Any = ""
    section = ""
    place = 0
    icon = "label"
    creatable = True
    changeable = True
    deletable = True
    # Rows that nobody edits hold texts of runtimes, models and strangers: they are shown, never saved from here.
    # ``spoken`` names the columns with a person's own words.
    of_strangers = False
    # Columns that no list reads: what models and runtimes sent, and what must be decrypted. A path through a relation
    # spares the related row's.
    heavy: tuple[str, ...] = ()
    spoken: tuple[str, ...] = ()
    list_per_page = 50
    # One page and no more; and no count beside each value of each filter.
    list_max_show_all = list_per_page
    show_facets = ShowFacets.NEVER
    show_full_result_count = False
    warn_unsaved_form = True
    list_filter_submit = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.writer is not None:
            self.kind = self.writer.kind

    # Who may

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self._reaches(request, obj, reach.of(request).readable)

    def has_add_permission(self, request: HttpRequest) -> bool:
        found = reach.of(request)
        return self.creatable and (bool(found.writable) or found.everything)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.changeable and self._reaches(request, obj, reach.of(request).writable)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.deletable and self._reaches(request, obj, reach.of(request).writable)

    def has_operate_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """For buttons on a row's page: whether the person may change what hangs on the row."""
        if object_id is None:
            return bool(reach.of(request).writable)
        row = self.get_object(request, object_id)
        return row is not None and self._reaches(request, row, reach.of(request).writable)

    def _reaches(self, request: HttpRequest, obj: Model | None, ids: frozenset[UUID]) -> bool:
        if reach.of(request).everything:
            return True
        if obj is None:
            return bool(ids)
        organization = self.organization_of(obj)
        return organization is not None and organization.pk in ids

    def organization_of(self, obj: Any) -> Organization | None:
        """The organization that a row belongs to."""
        for part in self.organization_path.split("__"):
            obj = getattr(obj, part, None) if obj is not None and part != "pk" else obj
        return obj if isinstance(obj, Organization) else None

    # Which rows and choices

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        found = reach.of(request)
        return rows if found.everything else rows.filter(**{f"{self.organization_path}__in": found.readable})

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> Any:
        kwargs["queryset"] = choices(request, db_field.remote_field.model)
        field: Any = super().formfield_for_foreignkey(db_field, request, **kwargs)
        if field is not None and db_field.name == "organization" and len(reach.of(request).writable) == 1:
            field.initial = next(iter(reach.of(request).writable))
        return field

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        fixed = tuple(super().get_readonly_fields(request, obj))
        # Where a row belongs and what others call it by never change.
        return (
            fixed
            if obj is None
            else (*fixed, *(name for name in FIXED if name not in fixed and hasattr(obj, name)))
        )

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        form.problem = getattr(request, "_portal_problem", None)
        form.reachable = choices(request, Organization)
        return form

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        # Rows go one by one, each through its writer.
        actions: dict[str, Any] = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions

    # What an address may ask

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[queries.ClosedChangeList]:
        return queries.ClosedChangeList

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        queries.check(self, request, request.GET)
        found = super().get_changelist_instance(request)
        if self.of_strangers:
            for row in found.result_list:
                showing.reveal(row)
        return found

    def get_list_filter(self, request: HttpRequest) -> Any:
        return [queries.obeyed(declared) for declared in super().get_list_filter(request)]

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        # Checked with the whole query, before any of it is looked up.
        return True

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """An address fills in no form."""
        return {}

    # Showing

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], **options: Any) -> Any:
        """The page of a row, its texts ready to be drawn."""
        row = options.get("obj")
        if self.of_strangers and row is not None:
            inlines = [form.original for inline in context["inline_admin_formsets"] for form in inline]
            for shown in (row, *(original for original in inlines if original is not None)):
                showing.reveal(shown, spoken=self.spoken, on_lines=True)
            context["subtitle"] = str(row)
        return super().render_change_form(request, context, **options)

    # Writing

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """A refusal of a writer undoes everything and is shown in the form."""
        try:
            return self._changeform(request, object_id, form_url, extra_context)
        except Problem as problem:
            request._portal_problem = problem  # type: ignore[attr-defined]
            return self._changeform(request, object_id, form_url, extra_context)

    def _changeform(self, request: HttpRequest, *args: Any) -> HttpResponse:
        answer: HttpResponse = super().changeform_view(request, *args)
        return answer

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, add: bool = False
    ) -> Any:
        data = {} if add else changes.of_form(form)
        for formset in formsets or ():
            inline = changes.of_formset(formset)
            if inline:
                data[str(formset.prefix)] = inline
        return data

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Written with its parts, by :meth:`save_related`."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Write the row and its inlines in one step."""
        if self.writer is None:
            return
        parts = [row for formset in formsets for row in formset.save(commit=False)]
        self.writer.save(
            form.instance,
            self.construct_change_message(request, form, formsets, not change),
            actor=changes.actor(request),
            columns=self.columns(form),
            parts=parts,
            gone=[row for formset in formsets for row in formset.deleted_objects],
        )

    def columns(self, form: Any) -> list[str]:
        """The columns that the page writes of a row that is there: those in its form."""
        names = {field.name for field in self.opts.concrete_fields}
        return [name for name in form.cleaned_data if name in names]

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        assert self.writer is not None
        self.writer.delete(obj, actor=changes.actor(request))

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> None:
        """Every writer records what it writes."""

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> None:
        """Every writer records what it writes."""

    def log_deletions(self, request: HttpRequest, queryset: Any) -> None:
        """Every writer records what it writes."""

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """What is in use stays, and the page says who uses it."""
        try:
            with transaction.atomic():
                row = self.get_object(request, object_id)
                users = self.find_users(row) if row is not None else []
                if users and self.has_delete_permission(request, row):
                    text = gettext("This is in use and stays: %(users)s. Name another there first.")
                    raise Problem(409, "in_use", text % {"users": ", ".join(users[:20])})
                answer: HttpResponse = super().delete_view(request, object_id, extra_context)
                return answer
        except Problem as problem:
            self.message_user(request, problem.detail, level="error")
            return HttpResponseRedirect(
                reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[object_id])
            )

    def alerts(self, request: HttpRequest) -> list[Alert]:
        """What of this screen can't wait, for the overview."""
        return []

    def find_users(self, obj: Any) -> list[str]:
        """What names the row, for people; such a row is not deleted."""
        return []

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The audit trail is the history."""
        row = self.get_object(request, object_id)
        if row is None:
            answer: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
            return answer
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        query = urlencode({"object_kind": self.kind, "object_id": str(row.pk)})
        return HttpResponseRedirect(f"{reverse('admin:portal_auditevent_changelist')}?{query}")


class RecordAdmin(ScopedAdmin):
    """Rows that nobody edits: they say what happened."""

    creatable = False
    changeable = False
    deletable = False
    of_strangers = True


class _ScopedInline:
    """What an inline may do is what its parent's page may."""

    formset = ScopedFormSet
    extra = 0

    def _parent(self) -> Any:
        site: Any = self.admin_site  # type: ignore[attr-defined]
        return site._registry[self.parent_model]  # type: ignore[attr-defined]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(self._parent().has_view_permission(request, obj))

    def has_add_permission(self, request: HttpRequest, obj: Any) -> bool:
        return bool(self._changes(request, obj))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(self._changes(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(self._changes(request, obj))

    def _changes(self, request: HttpRequest, obj: Any) -> Any:
        parent = self._parent()
        return (
            parent.has_add_permission(request) if obj is None else parent.has_change_permission(request, obj)
        )

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        found = super().get_formset(request, obj, **kwargs)  # type: ignore[misc]
        found.reachable = choices(request, Organization)
        return found

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["queryset"] = choices(request, db_field.remote_field.model)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)  # type: ignore[misc]


class ScopedTabular(_ScopedInline, TabularInline):
    """Rows of a parent, as a table. A cell's field has no label of its own: the column's head names it."""

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        found = super().get_formset(request, obj, **kwargs)
        for name, field in found.form.base_fields.items():
            field.widget.attrs.setdefault("aria-label", str(field.label or pretty_name(name)))
        return found


class ScopedStacked(_ScopedInline, StackedInline):
    """Rows of a parent, one below the other."""


def choices(request: HttpRequest, model: Any) -> QuerySet[Any]:
    """The rows of ``model`` that the person may refer to in a form: those of organizations that they may change."""
    found = reach.of(request)
    rows: QuerySet[Any] = model._default_manager.all()
    if found.everything:
        return rows
    if model is Organization:
        return rows.filter(pk__in=found.writable)
    if model is User:
        members = User.objects.filter(memberships__organization__in=found.writable)
        return rows.filter(pk__in=members.values("pk"))
    return rows.filter(organization__in=found.writable)
