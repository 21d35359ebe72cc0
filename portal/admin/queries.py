"""What the address of an admin page may ask: the filters, search, order and page that its list declares.

Every view of the site passes through :func:`guarded`, and every list through :func:`check`, so that no operator and no
pattern of a client's choice reaches the database, whichever list is registered next.
"""

from collections.abc import Callable
from datetime import date, datetime
from functools import wraps
from typing import Any

from django.contrib.admin import FieldListFilter, SimpleListFilter
from django.contrib.admin.options import IS_POPUP_VAR, TO_FIELD_VAR, IncorrectLookupParameters
from django.contrib.admin.utils import get_fields_from_path
from django.contrib.admin.views.main import ORDER_VAR, PAGE_VAR, SEARCH_VAR
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import models
from django.http import HttpRequest, QueryDict
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.views import ChangeList

from portal.web import queries
from portal.web.queries import BadQuery

KEPT_FILTERS = "_changelist_filters"
# Years that a filter by time may name: what lies beyond can't be told in every zone.
FIRST_YEAR = 1970
LAST_YEAR = 2999

_NO_PAGE = gettext_lazy("there is no such page of this list.")

# Says whether a text is a value of the parameter.
Check = Callable[[str], bool]


class ClosedChangeList(ChangeList):
    """A list whose query was checked; what Django would send on to the bare list is 400 as well."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        try:
            super().__init__(request, *args, **kwargs)
        except IncorrectLookupParameters as error:
            raise BadQuery(PAGE_VAR, str(_NO_PAGE)) from error

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        """The rows without what no list shows."""
        return super().get_queryset(request, exclude_parameters).defer(*self.model_admin.heavy)

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if self.page_num > max(1, self.paginator.num_pages):
            raise BadQuery(PAGE_VAR, str(_NO_PAGE))


def guarded(view: Callable[..., Any]) -> Callable[..., Any]:
    """``view`` of the admin site behind the checks of what its address asks."""
    screen = getattr(view, "__self__", None)

    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            if hasattr(screen, "get_changelist_instance"):
                _check_kept(screen, request)
            return view(request, *args, **kwargs)
        except BadQuery as problem:
            return queries.refuse(request, problem)

    return inner


def _check_kept(screen: Any, request: HttpRequest) -> None:
    """The parameters of every page of a screen: the list to go back to, and what a form in a pop-up tells."""
    for name in (KEPT_FILTERS, IS_POPUP_VAR, TO_FIELD_VAR):
        if len(request.GET.getlist(name)) > 1:
            raise BadQuery(name, _("is given more than once; give it once."))
    kept = request.GET.get(KEPT_FILTERS)
    if kept:
        check(screen, request, QueryDict(kept))
    if request.GET.get(IS_POPUP_VAR, "1") != "1":
        raise BadQuery(IS_POPUP_VAR, _("is 1, or left out."))
    for given in (request.GET.get(TO_FIELD_VAR), request.POST.get(TO_FIELD_VAR)):
        if given and not screen.to_field_allowed(request, given):
            raise BadQuery(TO_FIELD_VAR, _("nothing refers to a row by this."))


def check(screen: Any, request: HttpRequest, query: QueryDict) -> None:
    """Raise :class:`BadQuery` unless the list of ``screen`` declares every parameter and may have every value."""
    filters = _filters(screen, request)
    hierarchy = _hierarchy(screen)
    allowed = {ORDER_VAR, PAGE_VAR, *filters, *hierarchy}
    if screen.get_search_fields(request):
        allowed.add(SEARCH_VAR)
    given = queries.single(query, allowed)
    for name, value in given.items():
        if name == PAGE_VAR:
            queries.check_page(name, value)
        elif name == SEARCH_VAR:
            queries.check_search(name, value)
        elif name == ORDER_VAR:
            _check_order(screen, request, value)
        elif name in filters and not filters[name](value):
            raise BadQuery(name, _("this filter has no such value; choose another, or leave it out."))
    _check_hierarchy([given.get(name) for name in hierarchy], hierarchy)


def obeyed(declared: Any) -> Any:
    """A declared filter that is obeyed whenever it is given: Django drops one with a single choice in silence."""
    if isinstance(declared, type):
        return declared
    path, make = declared if isinstance(declared, tuple | list) else (declared, FieldListFilter.create)

    def create(*args: Any, **kwargs: Any) -> Any:
        spec = make(*args, **kwargs)
        if spec.used_parameters:
            spec.has_output = lambda: True
        return spec

    return path, create


# What filters take


def _filters(screen: Any, request: HttpRequest) -> dict[str, Check]:
    """The parameters of the declared filters. A filter of a kind that is not known here takes none."""
    found: dict[str, Check] = {}
    for declared in screen.list_filter:
        if isinstance(declared, type):
            if issubclass(declared, SimpleListFilter):
                found |= _of_simple(screen, request, declared)
            continue
        path = declared[0] if isinstance(declared, tuple | list) else declared
        found |= _of_field(path, get_fields_from_path(screen.model, path)[-1])
    return found


def _of_simple(screen: Any, request: HttpRequest, declared: type[SimpleListFilter]) -> dict[str, Check]:
    name = str(declared.parameter_name)

    def check(value: str) -> bool:
        spec = declared(request, {name: [value]}, screen.model, screen)
        return value in {str(choice) for choice, _title in spec.lookup_choices}

    return {name: check}


def _of_field(path: str, field: Any) -> dict[str, Check]:
    found: dict[str, Check]
    if field.remote_field is not None:
        target = field.target_field
        found = {f"{path}__{target.name}__exact": lambda value: _is_value(target, value)}
    elif isinstance(field, models.BooleanField):
        found = {f"{path}__exact": lambda value: value in ("0", "1")}
    elif field.choices:
        known = {str(value) for value, _title in field.flatchoices}
        found = {f"{path}__exact": lambda value: value in known}
    elif isinstance(field, models.DateField):
        found = {f"{path}__{edge}": lambda value: _is_moment(field, value) for edge in ("gte", "lt")}
    else:
        found = {path: lambda value: (bool(value) or field.empty_strings_allowed) and _is_value(field, value)}
    if field.null:
        found[f"{path}__isnull"] = lambda value: value in ("True", "False")
    return found


def _is_value(field: Any, value: str) -> bool:
    try:
        field.run_validators(field.to_python(value))
    except (ValidationError, ValueError, OverflowError):
        return False
    return True


def _is_moment(field: Any, value: str) -> bool:
    """A day for a column of days; for one of times a time that names its zone."""
    if not isinstance(field, models.DateTimeField):
        return _is_value(field, value) and _is_year(field.to_python(value).year)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return False
    return timezone.is_aware(moment) and _is_year(moment.year)


def _is_year(year: int) -> bool:
    return FIRST_YEAR <= year <= LAST_YEAR


# Days, from the year down


def _hierarchy(screen: Any) -> list[str]:
    if not screen.date_hierarchy:
        return []
    return [f"{screen.date_hierarchy}__{part}" for part in ("year", "month", "day")]


def _check_hierarchy(parts: list[str | None], names: list[str]) -> None:
    numbers: list[int] = []
    for part, name in zip(parts, names, strict=True):
        if part is None:
            continue
        if len(numbers) < names.index(name):
            raise BadQuery(name, _("name what it is a part of as well: a day's month, a month's year."))
        if not (part.isascii() and part.isdigit() and len(part) <= 4):
            raise BadQuery(name, _("is no such part of a date."))
        numbers.append(int(part))
        try:
            moment = date(*[*numbers, 1, 1][:3])
        except ValueError:
            raise BadQuery(name, _("there is no such day.")) from None
        if not _is_year(moment.year):
            raise BadQuery(name, _("there is nothing in this year."))


# Order


def _check_order(screen: Any, request: HttpRequest, value: str) -> None:
    """``1.-3``: columns by number, each at most once, the minus for descending; empty for the list's own order."""
    columns = list(screen.get_list_display(request))
    if screen.get_actions(request):
        columns.insert(0, "action_checkbox")
    sortable = set(screen.get_sortable_by(request))
    seen: set[int] = set()
    for part in value.split(".") if value else ():
        number = part.removeprefix("-")
        index = int(number) if number.isascii() and number.isdigit() and len(number) <= 3 else len(columns)
        if index >= len(columns) or index in seen or columns[index] not in sortable:
            raise BadQuery(ORDER_VAR, _("this list can't be sorted so; follow the links of its columns."))
        if not _has_order(screen, columns[index]):
            raise BadQuery(ORDER_VAR, _("this list can't be sorted so; follow the links of its columns."))
        seen.add(index)


def _has_order(screen: Any, column: Any) -> bool:
    try:
        screen.opts.get_field(column)
    except FieldDoesNotExist:
        found = getattr(screen, column, None) or getattr(screen.model, column, None)
        return getattr(found, "admin_order_field", None) is not None
    return True
