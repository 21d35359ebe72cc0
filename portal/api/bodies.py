"""Reading a request's body, bounded whatever the client says about its length."""

from django.http import HttpRequest

from portal.api import problems
from portal.lib.problems import Problem

BODY_LIMIT = 1024 * 1024


def read(request: HttpRequest, *, limit: int = BODY_LIMIT) -> bytes:
    """The raw body, at most ``limit`` bytes.

    Reads the stream itself: a chunked body has no Content-Length, and one that is announced may lie.
    Raises 413 ``too_large`` without reading the rest, and 415 for a body that is compressed or not declared as JSON.
    """
    announced = request.META.get("CONTENT_LENGTH") or "0"
    if announced.isdigit() and int(announced) > limit:
        raise problems.too_large(limit)
    body = bytes(request.read(limit + 1))
    if len(body) > limit:
        raise problems.too_large(limit)
    if body and request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise Problem(415, "unsupported_media_type", "Send the body as it is, without Content-Encoding.")
    if body and request.content_type != "application/json":
        raise Problem(415, "unsupported_media_type", "Send the body as 'Content-Type: application/json'.")
    return body
