"""The registry's commonest answer, "unchanged", without Django around it.

An ASGI middleware, which :mod:`portal.asgi` puts before Django's own handler. It answers 304 and nothing else: a
request that is not plainly a poll, or that :mod:`hooks_app.polls` doesn't confirm, goes on to the view, which judges it
from the start, words the refusal and logs it. At most ``THREADS`` threads and database connections serve all of them.
"""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from io import BytesIO

import structlog
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, connection
from django.http import HttpResponse
from django.http.request import split_domain_port, validate_host
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware
from django.urls import resolve
from django.utils.http import parse_etags

from hooks_app import metrics as measures
from hooks_app import polls
from hooks_app.api import registry_views
from hooks_app.api.endpoint import RUNTIME_HEADER
from hooks_app.api.requests import RegistryQuery
from hooks_app.models.keys import KEY_PREFIX
from portal import metrics, outages, traffic
from portal.api import problems
from portal.bounds import Application, Receive, Scope, Send
from portal.lib import statements

PATH = re.compile(r"/api/v1/agents/([a-z0-9-]{1,64})/registry")
# `eval` needs a scope of its own.
QUERY = re.compile(rb"(?:surface=(chat|api|dag|subagent|workflow))?")
DEFAULT_SURFACE = RegistryQuery().surface
THREADS = 4

Headers = list[tuple[bytes, bytes]]

log = structlog.get_logger(__name__)


class Shortcut:
    """The ASGI callable around Django's."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="polls")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 304, or pass the request on."""
        poll = read(scope)
        answer = None
        if poll is not None:
            answer = await asyncio.get_running_loop().run_in_executor(self._pool, _answer, poll)
        if answer is None:
            await self._application(scope, receive, send)
            return
        scope[traffic.ROUTE] = _route()
        status, headers, body = answer
        headers = [*headers, *_always(scope["scheme"])]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


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


def _answer(poll: polls.Poll) -> tuple[int, Headers, bytes] | None:
    try:
        etag = polls.confirm(poll)
    except DatabaseError as error:
        connection.close()
        problem = outages.note(error)
        if problem is None:
            return None
        refused = problems.respond(problem)
        return refused.status_code, _encode(refused), refused.content
    finally:
        statements.release()
    if etag is None:
        return None
    metrics.count(measures.REGISTRY_ANSWERS, status="304")
    log.debug("registry.unchanged", agent=poll.agent, surface=poll.surface, runtime=poll.runtime)
    headers = [
        (b"etag", etag.encode()),
        (b"cache-control", registry_views.CACHE_CONTROL.encode()),
        (b"vary", b"Accept-Language, Cookie"),  # what the view's own 200 varies on
    ]
    return 304, headers, b""


def _is_ours(host: str) -> bool:
    return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)


@cache
def _route() -> str:
    return resolve("/api/v1/agents/any/registry").route


@cache
def _always(scheme: str) -> Headers:
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
    return _encode(response)


def _encode(response: HttpResponse) -> Headers:
    return [(name.lower().encode(), value.encode()) for name, value in response.items()]
