"""Following a request from its first byte to its answer: an id for its log lines, a route for its metrics."""

import time
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse
from django_structlog.middlewares import RequestMiddleware

from portal.lib import ids
from portal.observe import metrics
from portal.serving.bounds import Application, Message, Receive, Scope, Send
from portal.serving.connections import LASTS
from portal.web import pages, policy

# Where, in an ASGI scope, the route stands that took the request, and whether it lasts as long as its client wants.
ROUTE = "hookgate.route"
UNMATCHED = "unmatched"
# Families of addresses that are one route in the metrics.
_FOLDED = ("admin/", "static/", "sandbox/")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class LoggedRequests(RequestMiddleware):
    """``request_started`` and ``request_finished``, with one ``request_id``.

    Without the query, in which people search, and with the address that the server vouches for: a client may write
    anything into a header. Whoever waits looks often; what logs that is the wait.
    """

    def prepare(self, request: HttpRequest) -> None:
        """Give the request its id, unless :func:`follow` has."""
        if not _lasts(request):
            super().prepare(request)

    @staticmethod
    def format_request(request: HttpRequest) -> str:
        """Method and path."""
        return f"{request.method} {request.path}"

    @classmethod
    def bind_ip(cls, request: HttpRequest) -> None:
        """The peer, or whom a trusted proxy names."""
        structlog.contextvars.bind_contextvars(ip=request.META.get("REMOTE_ADDR"))

    def handle_response(self, request: HttpRequest, response: HttpResponse) -> None:
        """Leave the route behind for the metrics, tell the browser what a page may do, and show what it hides."""
        policy.declare(request, response)
        pages.reveal(response)
        scope: Any = getattr(request, "scope", None)
        if scope is not None and request.resolver_match is not None:
            scope[ROUTE] = request.resolver_match.route
        if not _lasts(request):
            super().handle_response(request, response)


def _lasts(request: HttpRequest) -> bool:
    return bool(getattr(request, "scope", {}).get(LASTS))


def follow(scope: Scope) -> None:
    """Give a request that never meets the middleware its id, for the log lines of the current task."""
    structlog.contextvars.clear_contextvars()
    client = scope.get("client")
    structlog.contextvars.bind_contextvars(request_id=str(ids.new()), ip=client[0] if client else None)
    scope[LASTS] = True


class CountedRequests:
    """ASGI middleware: counts every request, whichever application answers it."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count it when it is over."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        began = time.perf_counter()
        status = "none"  # the client went away before there was an answer

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self._application(scope, receive, noting)
        finally:
            _count(scope, status, time.perf_counter() - began)


def _count(scope: Scope, status: str, seconds: float) -> None:
    route = _route(scope)
    method = scope["method"] if scope["method"] in _METHODS else "other"
    metrics.count(metrics.REQUESTS, route=route, method=method, status=status)
    if not scope.get(LASTS):
        metrics.observe(metrics.REQUEST_SECONDS, seconds, route=route)


def _route(scope: Scope) -> str:
    """The pattern of the address, so that no id and no name becomes a label."""
    route = str(scope.get(ROUTE) or UNMATCHED)
    path = scope["path"].removeprefix("/")
    for family in _FOLDED:
        if route.startswith(family) or (route == UNMATCHED and path.startswith(family)):
            return family
    return "/" if route == UNMATCHED and not path else route
