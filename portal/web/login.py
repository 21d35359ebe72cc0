"""Signing in, one's own password, and the answer to too many wrong ones."""

from datetime import timedelta
from functools import partial
from typing import Any

from axes.helpers import get_cool_off
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView, PasswordChangeView
from django.contrib.messages.views import SuccessMessageMixin
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy
from django.views.i18n import set_language as _set_language

from portal import audit, hashing, sign_ins


class SignIn(LoginView):
    """Name and password. Whoever fails too often is refused before and after the wait for a look at the password."""

    template_name = "portal/login.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Sign in."""
        with hashing.judged(partial(sign_ins.check, request)):
            return super().post(request, *args, **kwargs)


# Whoever signs in must be able to read the page.
set_language = login_not_required(_set_language)


class ChangePassword(SuccessMessageMixin, PasswordChangeView):  # type: ignore[type-arg]
    """One's own password; other sessions of the person end."""

    template_name = "portal/password.html"
    success_url = reverse_lazy("inbox")
    success_message = gettext_lazy("Your password is changed.")

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Whoever holds somebody's session may guess no faster than at the sign-in page."""
        sign_ins.check(request)
        with hashing.judged(partial(sign_ins.check, request)):
            return super().post(request, *args, **kwargs)

    def form_invalid(self, form: Any) -> HttpResponse:
        """A wrong password counts as one."""
        if form.has_error("old_password", "password_incorrect"):
            sign_ins.note(self.request)
        return super().form_invalid(form)

    def form_valid(self, form: Any) -> HttpResponse:
        """Change and record it together."""
        with transaction.atomic():
            answer = super().form_valid(form)
            person = form.user
            audit.append(
                organization=None,
                actor=audit.person(person),
                action="user.password_changed",
                kind="user",
                id=person.pk,
                name=person.username,
            )
        return answer


def locked_out(request: HttpRequest, response: HttpResponse | None, credentials: Any) -> HttpResponse:
    """429 with ``Retry-After``, in words: the name is locked for this address, and for how long."""
    del response, credentials
    pause: timedelta = get_cool_off(request) or timedelta()
    answer = render(
        request,
        "portal/locked_out.html",
        {"minutes": max(1, round(pause.total_seconds() / 60))},
        status=429,
    )
    answer["Retry-After"] = str(round(pause.total_seconds()))
    return answer
