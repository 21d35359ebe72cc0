"""The query parameters of a list are an allow list: what a page doesn't name is refused before anything is read."""

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.text import smart_split
from django.utils.translation import gettext as _

from portal.lib.problems import FieldError, Problem

View = Callable[..., Any]

# Characters of one value.
LONGEST = 300
# Each word of a search is one condition per searched column.
LONGEST_SEARCH = 200
MOST_WORDS = 10
LAST_PAGE = 999_999


class BadQuery(Problem):
    """400 ``invalid``: a parameter that a list doesn't take, or a value that it can't have."""

    def __init__(self, name: str, message: str) -> None:
        # The name is the client's own text; as much of it as a person needs to recognize it.
        shown = name if len(name) <= 60 else f"{name[:60]}…"
        super().__init__(
            400, "invalid", f"{shown}: {message}", errors=[FieldError(shown, "invalid", message)]
        )


def single(query: QueryDict, allowed: Collection[str]) -> dict[str, str]:
    """The parameters as one text each. Raises :class:`BadQuery` for one that is not ``allowed`` or can be no value."""
    for name, values in query.lists():
        if name not in allowed:
            raise BadQuery(name, _("this list has no such parameter; leave it out."))
        if len(values) > 1:
            raise BadQuery(name, _("is given more than once; give it once."))
        if len(values[0]) > LONGEST:
            raise BadQuery(name, _("is longer than %(count)d characters.") % {"count": LONGEST})
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in values[0]):
            raise BadQuery(name, _("holds a control character; leave it out."))
    return query.dict()  # type: ignore[return-value]  # of texts, as each was given once


def check_page(name: str, value: str) -> None:
    """Raise :class:`BadQuery` unless ``value`` is the number of a page."""
    if not (value.isascii() and value.isdigit() and 1 <= int(value[:9]) <= LAST_PAGE and len(value) <= 6):
        raise BadQuery(name, _("is no number of a page; use 1 or more."))


def check_search(name: str, value: str) -> None:
    """Raise :class:`BadQuery` for a search that costs too much."""
    if len(value) > LONGEST_SEARCH:
        raise BadQuery(name, _("search for at most %(count)d characters.") % {"count": LONGEST_SEARCH})
    if len(list(smart_split(value))) > MOST_WORDS:
        raise BadQuery(name, _("search for at most %(count)d words.") % {"count": MOST_WORDS})


def refuse(request: HttpRequest, problem: BadQuery) -> HttpResponse:
    """The 400 as a page: which parameter, and the way to the list without any."""
    context = {"detail": problem.detail, "path": request.path}
    answer = render(request, "portal/bad_query.html", context, status=problem.status)
    answer["Cache-Control"] = "no-store"
    return answer


def only(*names: str) -> Callable[[View], View]:
    """For the view of a list without search and filters: it takes the pages ``names`` and nothing else."""

    def decorate(view: View) -> View:
        @wraps(view)
        def closed(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            try:
                for name, value in single(request.GET, names).items():
                    check_page(name, value)
                return view(request, *args, **kwargs)
            except BadQuery as problem:
                return refuse(request, problem)

        return closed

    return decorate
