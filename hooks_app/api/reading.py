"""Reading for those who wait: views and rows, through one bounded pool of threads, each job giving its connection back.

However many wait, at most ``THREADS`` threads and database connections serve them.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from io import BytesIO
from typing import Any, Generic, Self, TypeVar

from django.conf import settings
from django.contrib import auth
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import resolve
from django.utils.functional import SimpleLazyObject

from hooks_app.api import endpoint
from portal import traffic
from portal.api import problems
from portal.bounds import Scope
from portal.lib.problems import FieldError, invalid

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

THREADS = 4
# How many rows one batch reads, and how many requests one answers: each takes far longer than a row, and whoever is
# ready must not wait for all the others.
BATCH = 500
QUESTIONS = 8
RUNTIME_HEADER = endpoint.RUNTIME_HEADER.lower().encode()

_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="waiting")


def _job(work: Callable[[], R]) -> R:
    try:
        return work()
    finally:
        connections.close_all()


async def ask(scope: Scope) -> HttpResponse:
    """What the view at the scope's path answers: the same bytes as for a client that doesn't wait.

    The middleware is left out: sessions and people are read as it would, and nothing is logged for every look.
    """
    context = copy_context()  # whose request it is, for what the view logs
    work = asyncio.get_running_loop().run_in_executor(_pool, context.run, _job, lambda: _answer(scope))
    return await work


@dataclass(frozen=True)
class Question:
    """A request that is asked again. Those that say the same get the same answer, whichever ``scope`` is read."""

    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    scope: Scope = field(compare=False)

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """The question that a request is. What a runtime calls itself is not for answers that others get too."""
        headers = tuple((name, value) for name, value in scope["headers"] if name != RUNTIME_HEADER)
        return cls(scope["path"], scope["query_string"], headers, scope)


def answer(questions: list[Question]) -> dict[Question, HttpResponse]:
    """What :func:`ask` would answer to each; for a :class:`Batch`."""
    return {question: _answer(question.scope) for question in questions}


def _answer(scope: Scope) -> HttpResponse:
    request = ASGIRequest(dict(scope), BytesIO())
    try:
        request.get_host()
    except DisallowedHost:
        return problems.respond(invalid(FieldError("Host", "invalid", "is not a name of this portal")))
    _identify(request)
    found = resolve(request.path_info)
    request.resolver_match = found
    scope[traffic.ROUTE] = found.route
    response: HttpResponseBase = found.func(request, *found.args, **found.kwargs)
    if hasattr(response, "render"):
        response = response.render()
    assert isinstance(response, HttpResponse)
    response.headers["Content-Length"] = str(len(response.content))
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _identify(request: HttpRequest) -> None:
    engine: Any = import_module(settings.SESSION_ENGINE)
    request.session = engine.SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    user: Any = SimpleLazyObject(lambda: auth.get_user(request))
    request.user = user


class Batch(Generic[K, V]):
    """Reads what many waiters want to know in one job: whoever asks before it starts is part of it.

    ``read`` takes distinct keys, at most ``size``, and returns their values; a key without one is ``None``.
    """

    def __init__(self, read: Callable[[list[K]], Mapping[K, V]], *, size: int = BATCH) -> None:
        self._read = read
        self._size = size
        self._lock = threading.Lock()
        self._wanted: dict[K, Future[V | None]] = {}

    async def load(self, key: K) -> V | None:
        """The value as it is now or later, never as it was before the call."""
        with self._lock:
            future = self._wanted.get(key)
            if future is None:
                if not self._wanted:
                    _pool.submit(_job, self._run)
                future = self._wanted[key] = Future()
        # Others may wait for the same future: who goes away must not cancel it.
        return await asyncio.shield(asyncio.wrap_future(future))

    def _run(self) -> None:
        with self._lock:
            wanted, self._wanted = self._wanted, {}
        keys = list(wanted)
        first, *others = [keys[start : start + self._size] for start in range(0, len(keys), self._size)]
        for part in others:
            _pool.submit(_job, partial(self._settle, part, wanted))
        self._settle(first, wanted)

    def _settle(self, keys: list[K], wanted: dict[K, Future[V | None]]) -> None:
        try:
            found = self._read(keys)
        except Exception as error:  # noqa: BLE001  # it belongs to those who asked
            for key in keys:
                wanted[key].set_exception(error)
        else:
            for key in keys:
                wanted[key].set_result(found.get(key))
