"""A new credential is shown in the answer to the form that made it alone: no cookie and no session holds it."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import add_never_cache_headers


def page(
    screen: Any, request: HttpRequest, row: Any, *, plain: str, text: Any, shell: str = ""
) -> HttpResponse:
    """The page that shows ``plain`` once, with ``text`` above it and the way to the row below.

    ``shell``: lines that hand it to a program, ready to be pasted into a shell.
    """
    opts = screen.opts
    answer = TemplateResponse(
        request,
        "admin/shown_once.html",
        {
            **screen.admin_site.each_context(request),
            "opts": opts,
            "title": screen.title,
            "text": text,
            "plain": plain,
            "shell": shell,
            "onward": reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[row.pk]),
        },
    )
    add_never_cache_headers(answer)
    return answer
