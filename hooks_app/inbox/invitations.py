"""The pages on which a person joins an organization, or doesn't. Both answers are made by POST alone."""

from uuid import UUID

from django.contrib import messages
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from hooks_app.governance import members
from portal.lib.problems import Problem
from portal.models import User
from portal.people import links


@require_safe
@never_cache
def invitations(request: HttpRequest) -> HttpResponse:
    """Every invitation that is open."""
    return _page(request)


@require_POST
@never_cache
def accept(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Join, in the ``role`` that the page showed; a refusal shows the page again with its status."""
    user = _person(request)
    try:
        accepted = members.accept(user, pk, request.POST.get("role", ""))
    except Problem as problem:
        return _page(request, problem)
    organization = accepted.membership.organization.name
    if not accepted.password_dropped:
        messages.success(
            request, _("You are a member of %(organization)s now.") % {"organization": organization}
        )
        return redirect("inbox")
    # Every session has ended with the password, this one too: the answer is all that is left of it.
    sent = False
    if accepted.link is not None:
        try:
            links.send(*accepted.link)
            sent = True
        except Problem:
            sent = False
    logout(request)
    return render(request, "inbox/joined.html", {"organization": organization, "person": user, "sent": sent})


@require_POST
@never_cache
def decline(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Say no."""
    try:
        row = members.decline(_person(request), pk)
    except Problem as problem:
        return _page(request, problem)
    name = row.organization.name
    messages.success(request, _("You have declined to join %(organization)s.") % {"organization": name})
    return redirect("inbox-invitations")


def _page(request: HttpRequest, problem: Problem | None = None) -> HttpResponse:
    user = _person(request)
    context = {
        "tab": "invitations",
        "items": members.invitations_of(user),
        "loses_password": user.password_own_since is None and user.has_usable_password(),
        "problem": problem,
    }
    status = problem.status if problem else 200
    return render(request, "inbox/invitations.html", context, status=status)


def _person(request: HttpRequest) -> User:
    # LoginRequiredMiddleware lets nobody else through.
    assert isinstance(request.user, User)
    return request.user
