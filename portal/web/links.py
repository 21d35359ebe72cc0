"""The page behind a link with which a person chooses a password."""

from typing import Any

from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import SetPasswordForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from portal.people import links


@sensitive_post_parameters()
@login_not_required
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def account_link(request: HttpRequest, token: str) -> HttpResponse:
    """The form, and by POST the new password. 410 for a link that doesn't work, whatever the reason.

    Looking changes nothing: programs that read mail open links too.
    """
    link = links.find(token)
    form: SetPasswordForm[Any] | None = None
    if link is not None:
        form = SetPasswordForm(link.user, request.POST if request.method == "POST" else None)
        if form.is_valid():
            if links.use(token, form.cleaned_data["new_password1"]) is None:
                form = None
            else:
                logout(request)
                messages.success(request, _("Your password is set. Sign in with it."))
                return _unnamed(redirect("login"))
    context = {"form": form, "person": link.user if link is not None and form is not None else None}
    answer = render(request, "portal/link.html", context, status=410 if form is None else 200)
    return _unnamed(answer)


def _unnamed(answer: HttpResponse) -> HttpResponse:
    """Let the browser tell no other page the address, which is a secret."""
    answer["Referrer-Policy"] = "no-referrer"
    return answer
