"""Small parts of the frame."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.templatetags.static import static
from django.utils.translation import gettext as _


def icon(request: HttpRequest) -> str:
    """The portal's sign."""
    return static("portal/icon.svg")


def style(request: HttpRequest) -> str:
    """What the theme lacks."""
    return static("portal/admin.css")


def script(request: HttpRequest) -> str:
    """Names for what the theme leaves without one."""
    return static("portal/admin.js")


def environment(request: HttpRequest) -> list[Any]:
    """The badge in the corner: which kind of portal this is."""
    if settings.DEBUG:
        return [_("debugging"), "danger"]
    if settings.SANDBOX:
        return [_("sandbox"), "warning"]
    return [settings.BASE_URL.partition("://")[2], "info"]
