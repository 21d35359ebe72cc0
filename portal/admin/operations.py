"""A button on a row's page that does something: a page that asks (GET), and the deed (POST)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse

from portal.admin.forms import show_problem
from portal.lib.problems import Problem


@dataclass(frozen=True)
class Operation:
    """What the page says, what it asks for, and what happens then.

    ``perform`` gets the row and the cleaned data, runs in a transaction, and returns the message for the person, or the
    page that answers; a ``Problem`` undoes it and is shown in the form. ``context`` is more for the template.
    """

    title: Any
    text: Any
    button: Any
    perform: Callable[[Any, dict[str, Any]], Any]
    form: type[forms.Form] = forms.Form
    danger: bool = False
    template: str = "admin/operation.html"
    context: dict[str, Any] = field(default_factory=dict)


def run(screen: Any, request: HttpRequest, object_id: str, operation: Operation) -> HttpResponse:
    """Answer the request of a button: the page, or after POST the way back to the row."""
    row = screen.get_object(request, object_id)
    if row is None:
        answer: HttpResponse = screen._get_obj_does_not_exist_redirect(request, screen.opts, object_id)
        return answer
    back = reverse(f"admin:{screen.opts.app_label}_{screen.opts.model_name}_change", args=[row.pk])
    form = operation.form(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            with transaction.atomic():
                message = operation.perform(row, form.cleaned_data)
        except Problem as problem:
            show_problem(form, problem)
        else:
            if isinstance(message, HttpResponse):
                return message
            messages.success(request, message)
            gone = screen.get_object(request, object_id) is None
            return redirect(
                f"admin:{screen.opts.app_label}_{screen.opts.model_name}_changelist" if gone else back
            )
    return TemplateResponse(
        request,
        operation.template,
        {
            **screen.admin_site.each_context(request),
            "opts": screen.opts,
            "title": operation.title,
            "original": row,
            "operation": operation,
            "form": form,
            "back": back,
            **operation.context,
        },
    )
