"""The answer to an error that nobody foresaw: a page for people, a problem document for programs."""

import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin
from django.views.defaults import server_error

from portal.api import problems
from portal.lib.problems import Problem
from portal.observe import outages

PROGRAMS = ("/api/", "/channels/")


def failed(request: HttpRequest) -> HttpResponse:
    """503 or 507 with ``Retry-After`` while the database can't do its work, else 500. Reads no rows."""
    problem = outages.note(sys.exc_info()[1])
    if problem is None:
        return server_error(request)
    return refuse(request, problem)


class Refusals(MiddlewareMixin):
    """What is too much for now (429, 503) is told as that, wherever in a page's making it was noticed."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """The refusal as a page or a document; anything else stays an error."""
        if isinstance(error, Problem) and error.status in (429, 503):
            return refuse(request, error)
        return None


def refuse(request: HttpRequest, problem: Problem) -> HttpResponse:
    """A refusal for now (429, 503, 507) as a page, or as a document. Reads no rows."""
    answer = problems.respond(problem)
    if request.path_info.startswith(PROGRAMS) or not request.accepts("text/html"):
        return answer
    # While the database is away the frame of a page, which names the person, can't be drawn.
    told = ("portal/too_many.html", request) if problem.status == 429 else ("503.html", None)
    page = render(told[1], told[0], {"detail": problem.detail}, status=problem.status)
    page["Retry-After"] = answer["Retry-After"]
    page["Cache-Control"] = "no-store"
    return page
