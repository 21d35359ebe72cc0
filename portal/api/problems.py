"""Every refusal of the API as ``application/problem+json`` (RFC 9457)."""

import math
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpResponse, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response

from portal.lib.problems import Problem, not_found
from portal.observe import metrics, outages

CONTENT_TYPE = "application/problem+json"

log = structlog.get_logger(__name__)


def unauthenticated() -> Problem:
    """401, the same for a missing, malformed, unknown, expired and revoked credential."""
    return Problem(
        401,
        "unauthenticated",
        "Send a valid key or token as 'Authorization: Bearer …', or sign in to the portal.",
    )


def too_large(limit: int) -> Problem:
    """413 for a body of more than ``limit`` bytes."""
    return Problem(413, "too_large", f"The body is larger than {limit} bytes; send less at once.")


def handle(error: Exception, context: dict[str, Any]) -> Response:
    """The exception handler of the REST framework: whatever was raised becomes a problem document.

    An error that nobody foresaw is logged with its traceback and answered with a bare 500 ``internal``.
    """
    problem = _translate(error) or outages.note(error)
    if problem is None:
        log.error("api.failed", view=type(context.get("view")).__name__, exc_info=error)
        problem = Problem(500, "internal", "The portal failed to answer; its log has the reason.")
    _count(problem)
    headers = _headers(problem)
    if isinstance(error, exceptions.MethodNotAllowed) and context.get("view") is not None:
        headers["Allow"] = ", ".join(context["view"].allowed_methods)
    return Response(problem.to_json(), status=problem.status, headers=headers, content_type=CONTENT_TYPE)


def respond(problem: Problem) -> HttpResponse:
    """The same document for a plain Django view."""
    _count(problem)
    return JsonResponse(
        problem.to_json(), status=problem.status, headers=_headers(problem), content_type=CONTENT_TYPE
    )


def _count(problem: Problem) -> None:
    metrics.count(metrics.REFUSALS, kind="api", status=str(problem.status), code=problem.code)


def _headers(problem: Problem) -> dict[str, str]:
    headers = {"Cache-Control": "no-store"}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.retry_after is not None or problem.status == 429:
        headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after or 0)))
    return headers


def _translate(error: Exception) -> Problem | None:
    match error:
        case Problem():
            return error
        case Http404() | exceptions.NotFound():
            return not_found()
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            return unauthenticated()
        case PermissionDenied() | exceptions.PermissionDenied():
            return Problem(403, "forbidden", str(error) or "You may not do this.")
        case exceptions.MethodNotAllowed():
            return Problem(405, "method_not_allowed", str(error.detail))
        case exceptions.UnsupportedMediaType():
            return Problem(415, "unsupported_media_type", str(error.detail))
        case RequestDataTooBig():
            return Problem(413, "too_large", "The body is too large; send less at once.")
        case exceptions.APIException():
            return Problem(error.status_code, "invalid", str(error.detail))
    return None
