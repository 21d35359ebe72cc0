"""The registry's commonest answer, "unchanged", without Django around it.

:mod:`portal.serving.handler` asks it first, in the thread that would ask Django. It answers 304 and nothing else: a
request that is not plainly a poll, or that :mod:`hooks_app.registry.polls` doesn't confirm, goes on to the view, which
judges it from the start, words the refusal and logs it.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from io import BytesIO

import structlog
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError
from django.http import HttpResponse
from django.http.request import split_domain_port, validate_host
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware
from django.urls import resolve
from django.utils.http import parse_etags

from hooks_app import metrics as measures
from hooks_app.api import registry_views
from hooks_app.api.endpoint import RUNTIME_HEADER
from hooks_app.api.requests import RegistryQuery
from hooks_app.models.keys import KEY_PREFIX
from hooks_app.registry import polls
from portal.api import problems
from portal.observe import metrics, outages
from portal.serving import traffic
from portal.serving.bounds import Scope

PATH = re.compile(r"/api/v1/agents/([a-z0-9-]{1,64})/registry")
# `eval` needs a scope of its own.
QUERY = re.compile(rb"(?:surface=(chat|api|dag|subagent|workflow))?")
DEFAULT_SURFACE = RegistryQuery().surface

log = structlog.get_logger(__name__)


def prepare(scope: Scope) -> Callable[[], HttpResponse | None] | None:
    """What answers the request if it is a poll, and the registry as it was; ``None`` for everything else."""
    poll = read(scope)
    return None if poll is None else partial(_answer, poll, scope)


def read(scope: Scope) -> polls.Poll | None:
    """The poll that a request is; ``None`` for every other, and for whatever is odd about one."""
    path = PATH.fullmatch(scope["path"])
    query = QUERY.fullmatch(scope["query_string"])
    if path is None or query is None or scope["method"] != "GET":
        return None
    sent = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    headers = dict(sent)
    scheme, _, key = headers.get("authorization", "").partition(" ")
    runtime = headers.get(RUNTIME_HEADER.lower(), "").strip()
    held = parse_etags(headers.get("if-none-match", ""))
    plain = (
        len(headers) == len(sent)  # nothing is there twice
        and scheme.lower() == "bearer"
        and key.startswith(KEY_PREFIX)
        and len(runtime) <= 100
        and runtime.isprintable()
        and _is_ours(headers.get("host", ""))
    )
    if not held or not plain:
        return None
    return polls.Poll(
        key=key,
        agent=path[1],
        surface=query[1].decode() if query[1] else DEFAULT_SURFACE,
        runtime=runtime or registry_views.UNNAMED,
        held=frozenset(tag.removeprefix("W/") for tag in held),
    )


def _answer(poll: polls.Poll, scope: Scope) -> HttpResponse | None:
    try:
        etag = polls.confirm(poll)
    except DatabaseError as error:
        problem = outages.note(error)
        return None if problem is None else _complete(problems.respond(problem), scope)
    if etag is None:
        return None
    metrics.count(measures.REGISTRY_ANSWERS, status="304")
    log.debug("registry.unchanged", agent=poll.agent, surface=poll.surface, runtime=poll.runtime)
    response = HttpResponse(status=304, headers={"ETag": etag, "Cache-Control": registry_views.CACHE_CONTROL})
    del response["Content-Type"]
    response["Vary"] = "Accept-Language, Cookie"  # what the view's own 200 varies on
    return _complete(response, scope)


def _complete(response: HttpResponse, scope: Scope) -> HttpResponse:
    scope[traffic.ROUTE] = _route()
    for name, value in _always(scope["scheme"]):
        response.setdefault(name, value)
    return response


def _is_ours(host: str) -> bool:
    return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)


@cache
def _route() -> str:
    return resolve("/api/v1/agents/any/registry").route


@cache
def _always(scheme: str) -> list[tuple[str, str]]:
    """The headers that Django's middleware adds to every answer, as the settings have them."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": [],
        "scheme": scheme,
    }
    request = ASGIRequest(scope, BytesIO())
    response = HttpResponse(status=304)
    for middleware in (SecurityMiddleware, XFrameOptionsMiddleware):
        middleware(lambda _request: response)(request)
    del response["Content-Type"]  # the answer's own business
    return list(response.items())
