"""The answer to an error that nobody foresaw: a page for people, a problem document for programs."""

import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.defaults import server_error

from portal import outages
from portal.api import problems

PROGRAMS = ("/api/", "/channels/")


def failed(request: HttpRequest) -> HttpResponse:
    """503 or 507 with ``Retry-After`` while the database can't do its work, else 500. Reads no rows."""
    problem = outages.note(sys.exc_info()[1])
    if problem is None:
        return server_error(request)
    answer = problems.respond(problem)
    if request.path_info.startswith(PROGRAMS) or not request.accepts("text/html"):
        return answer
    page = render(None, "503.html", {"detail": problem.detail}, status=problem.status)
    page["Retry-After"] = answer["Retry-After"]
    page["Cache-Control"] = "no-store"
    return page
