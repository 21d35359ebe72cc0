"""Forms that keep to one organization, and that show at its field what a writer refused."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.forms.formsets import INITIAL_FORM_COUNT, TOTAL_FORM_COUNT, ManagementForm
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _
from unfold.forms import PaginationInlineFormSet

from portal.admin import rows
from portal.lib.problems import FieldError, Problem
from portal.models import Organization, User

_EMPTY = _("This row says nothing: fill it in, or remove it.")
_ELSEWHERE = _("This belongs to another organization; choose one of the same.")


def show_problem(form: forms.BaseForm, problem: Problem) -> None:
    """Put each error of ``problem`` at the field that its path ends in, else above the form."""
    for error in problem.errors or (FieldError("", problem.code, problem.detail),):
        named = [part for part in (error.path, error.path.rpartition(".")[2]) if part in form.fields]
        text = error.message if named or not error.path else f"{error.path}: {error.message}"
        form.add_error(named[0] if named else None, text)


class Pick(forms.Field, ABC):
    """A field that offers names of things in an organization; what it stores are names."""

    @abstractmethod
    def offer(self, organizations: Iterable[Organization]) -> None:
        """Take the choices from these organizations."""

    @abstractmethod
    def names(self, organization: Organization) -> set[str]:
        """The names that a row of this organization may hold."""


class ScopedForm(forms.ModelForm):  # type: ignore[type-arg]
    """A row of one organization: what it refers to lies in the same one."""

    # What a writer refused when this form was saved before; the page is then drawn again with it.
    problem: Problem | None = None
    # Where the row may come to lie, while nobody has said where: for those who change several organizations.
    reachable: Any = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        organization = self._organization()
        for field in self.fields.values():
            if organization is not None and isinstance(field, forms.ModelChoiceField):
                field.queryset = within(field.queryset, organization)
            if isinstance(field, Pick):
                field.offer(self.reachable if organization is None else [organization])

    def _organization(self) -> Organization | None:
        """The organization of a row that exists; it never changes."""
        if self.instance._state.adding:
            return None
        found = getattr(self.instance, "organization", None)
        return found if isinstance(found, Organization) else None

    def _post_clean(self) -> None:
        """Two rows of one name in an organization are the slug's fault."""
        super()._post_clean()  # type: ignore[misc]
        for error in self.non_field_errors().as_data() if "slug" in self.fields else ():
            if error.code == "unique_together":
                del self.errors[NON_FIELD_ERRORS]
                self.add_error("slug", error)

    def clean(self) -> dict[str, Any]:
        """Refuse what lies elsewhere, and show what was refused before."""
        cleaned = super().clean() or self.cleaned_data
        organization = cleaned.get("organization") or self._organization()
        for name, value in list(cleaned.items()):
            field = self.fields.get(name)
            if organization is not None and not belongs(value, organization, field):
                self.add_error(name, _ELSEWHERE)
        if self.problem is not None:
            show_problem(self, self.problem)
        return dict(cleaned)


class ScopedFormSet(PaginationInlineFormSet):
    """Rows of a parent: what they refer to lies in the parent's organization. None is dropped without a word."""

    miscounted = ""

    @cached_property
    def management_form(self) -> ManagementForm:
        """How many rows there are, as their fields say; :attr:`miscounted` where what was sent disagrees."""
        if not self.is_bound:
            unbound: ManagementForm = super().management_form
            return unbound
        found = rows.count(self.data, self.prefix, self.model._meta.pk.name)
        self.miscounted = found.fault
        prefix = f"{self.prefix}-"
        form = ManagementForm(
            {f"{prefix}{TOTAL_FORM_COUNT}": found.total, f"{prefix}{INITIAL_FORM_COUNT}": found.initial},
            auto_id=self.auto_id,
            prefix=self.prefix,
            renderer=self.renderer,
        )
        form.full_clean()
        return form

    def _construct_form(self, i: int, **kwargs: Any) -> Any:
        # A row that somebody has added is meant: what it lacks is said at its fields.
        return super()._construct_form(i, **{**kwargs, "empty_permitted": False} if self.is_bound else kwargs)

    reachable: Any = ()

    def _owner(self) -> Organization | None:
        # Unset while the parent itself is being added.
        found = getattr(self.instance, "organization", None) if self.instance.organization_id else None
        return found if isinstance(found, Organization) else None

    def add_fields(self, form: Any, index: int | None) -> None:
        super().add_fields(form, index)
        organization = self._owner()
        for field in form.fields.values():
            if organization is not None and type(field) is forms.ModelChoiceField:
                field.queryset = within(field.queryset, organization)
            if isinstance(field, Pick):
                field.offer(self.reachable if organization is None else [organization])

    def clean(self) -> None:
        super().clean()
        if self.miscounted:
            raise ValidationError(self.miscounted, code="miscounted")
        for form in self.extra_forms:
            if not form.has_changed() and not form.errors and form not in self.deleted_forms:
                form.add_error(None, _EMPTY)
        organization = self._owner()
        if organization is None:
            return
        for form in self.forms:
            for name, value in list(getattr(form, "cleaned_data", {}).items()):
                field = form.fields.get(name)
                if field is None or value is self.instance:
                    continue
                if not belongs(value, organization, field):
                    form.add_error(name, _ELSEWHERE)


def within(queryset: Any, organization: Organization) -> Any:
    """Those rows of ``queryset`` that ``organization`` may refer to."""
    model = queryset.model
    if model is Organization:
        return queryset.filter(pk=organization.pk)
    if model is User:
        return queryset.filter(memberships__organization=organization)
    if any(field.name == "organization" for field in model._meta.get_fields()):
        return queryset.filter(organization=organization)
    return queryset


def belongs(value: Any, organization: Organization, field: Any = None) -> bool:
    """Whether a form's value is no row and no name, or one that ``organization`` may refer to."""
    if isinstance(field, Pick):
        named = value if isinstance(value, list) else [value]
        return {name for name in named if name} <= field.names(organization)
    if isinstance(value, User):
        return value.memberships.filter(organization=organization).exists()
    owner = getattr(value, "organization_id", None)
    return owner is None or owner == organization.pk
