"""Cross-site request forgery: a portal session may write through the API only with its token."""

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from portal.lib.problems import Problem


class _Check(CsrfViewMiddleware):
    """Django's own check, as a function that returns the reason of a refusal."""

    def _reject(self, request: HttpRequest, reason: str) -> str:
        return reason


def _unused(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def _view(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def enforce(request: HttpRequest) -> None:
    """Raise 403 ``csrf_failed`` unless the request is safe or carries the session's ``X-CSRFToken``.

    The API's views are exempt from the middleware, because keys and tokens are no cookies that a browser adds by
    itself; so sessions are checked here.
    """
    check = _Check(_unused)
    check.process_request(request)
    # The view that is asked about must not itself be exempt.
    reason = check.process_view(request, _view, (), {})
    if reason:
        raise Problem(403, "csrf_failed", f"Send the session's CSRF token as 'X-CSRFToken'. ({reason})")
