"""What a page of ours may load and run (``Content-Security-Policy``): nothing that is not ours."""

from django.http import HttpRequest, HttpResponse

_OURS = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
# The admin's theme has its behaviour in attributes of its pages. Still no other host, no frame, no plug-in.
_ADMIN = f"{_OURS}; script-src 'self' 'unsafe-inline' 'unsafe-eval'"
_ADMIN_ROOT = "/admin/"


def declare(request: HttpRequest, response: HttpResponse) -> None:
    """Add the policy to a page. Other answers show nothing."""
    if response.headers.get("Content-Type", "").startswith("text/html"):
        policy = _ADMIN if request.path.startswith(_ADMIN_ROOT) else _OURS
        response.headers.setdefault("Content-Security-Policy", policy)
