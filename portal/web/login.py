"""Signing in, one's own password, and the answer to too many wrong ones."""

from datetime import timedelta
from functools import partial
from typing import Any

from axes.helpers import get_cool_off
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.hashers import make_password
from django.contrib.auth.views import LoginView, PasswordChangeView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.utils.translation import gettext
from django.views.i18n import set_language as _set_language

from portal import sign_ins
from portal.lib import crypto
from portal.people import accounts, hashing


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


class ChangePassword(PasswordChangeView):
    """One's own password; other sessions of the person end."""

    template_name = "portal/password.html"
    success_url = reverse_lazy("inbox")

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
        """Change and record it together, unless the old one has been taken away since the form judged it."""
        hashed = make_password(form.cleaned_data["new_password1"])
        with transaction.atomic():
            person = accounts.locked(form.user.pk)
            if not crypto.same(person.password, form.user.password):
                form.add_error("old_password", gettext("This password is no longer yours; sign in again."))
                return self.form_invalid(form)
            accounts.choose_password(person, hashed)
        # This session goes on; every other one ends with the old password.
        update_session_auth_hash(self.request, person)
        messages.success(self.request, gettext("Your password is changed."))
        return redirect(self.get_success_url())


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
