"""The one way into Django: a request's body is read on the loop, and all else is one job of one thread.

Django's own ASGI handler takes a hop to a thread for each middleware, makes a thread for the view, and opens and closes
a database connection in it; see docs/architecture.md for what that cost. Here the middleware is loaded for synchronous
use, and the whole chain runs where the view does.
"""

import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from functools import cache, partial
from io import BytesIO
from itertools import islice
from typing import IO, Any

from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.signals import request_started
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix
from django.utils.module_loading import import_string

from portal.api import answers
from portal.lib import deadline
from portal.people import hashing
from portal.serving import lanes
from portal.serving.lanes import Lane, Patience
from portal.serving.threads import Full, threads
from portal.web import failures

Scope = Any
Work = Callable[[], HttpResponseBase]
Quick = Callable[[], HttpResponse | None]
# How many pieces of an answer that comes in pieces are read in one go.
PIECES = 32
# Seconds in which a job begins when a thread is free.
SOON = 0.1


class Handler(ASGIHandler):
    """An ASGI application, and :meth:`ask` for those who want the answer itself."""

    def __init__(self, quick: Callable[[Scope], Quick | None]) -> None:
        """``quick`` may know a short way to a request's answer; where that ends in ``None``, the long one is taken."""
        self._quick = quick
        self.load_middleware()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer one request."""
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        try:
            lane = lanes.lane(scope["method"], scope["path"])
            response = await self._run(scope, body, lane, self._quick(scope))
            if isinstance(response, HttpResponse):
                await answers.send(send, response)
            else:
                await self._stream(send, response, lane)
        finally:
            body.close()

    async def ask(self, scope: Scope, *, seconds: float) -> HttpResponseBase:
        """What the view at the scope's path answers to a request without a body, for those who wait for news:
        ``seconds`` longer than others who ask for that path.
        """
        return await self._run(scope, BytesIO(), lanes.lanes().looks, None, seconds)

    async def _run(
        self, scope: Scope, body: IO[bytes], lane: Lane, quick: Quick | None, longer: float = 0
    ) -> HttpResponseBase:
        patience = lanes.patience(scope["path"])
        since = time.monotonic()

        def work() -> HttpResponseBase:
            waited = time.monotonic() - since
            with deadline.within(patience.seconds + longer - waited, strict=patience.strict):
                return (quick and quick()) or self.answer(scope, body)

        try:
            job = partial(copy_context().run, work)
            return await threads().run(lane, job, seconds=_queueing(lane, patience) + longer)
        except Full as full:
            return self._refuse(scope, body, full)

    def answer(self, scope: Scope, body: IO[bytes]) -> HttpResponseBase:
        """The answer to a request, in the calling thread; one that doesn't come in pieces is complete and closed."""
        set_script_prefix(get_script_prefix(scope))
        request_started.send(sender=type(self), scope=scope)
        request, refusal = self.create_request(scope, body)
        response: Any = refusal if request is None else self.get_response(request)
        response._handler_class = type(self)  # whom `request_finished` names
        if not response.streaming:
            response.close()
        answer: HttpResponseBase = response
        return answer

    def _refuse(self, scope: Scope, body: IO[bytes], full: Full) -> HttpResponseBase:
        request, unreadable = self.create_request(scope, body)
        if request is None:
            return unreadable or HttpResponse(status=400)
        sign_ins = full.lane is lanes.lanes().sign_ins
        return failures.refuse(request, hashing.busy(settings.HASHING_WAIT_SECONDS) if sign_ins else full)

    async def _stream(self, send: Any, response: Any, lane: Lane) -> None:
        """Send an answer that comes in pieces: static files. No thread is held between them."""
        pieces: Iterator[bytes] = iter(response)
        more = True
        await answers.start(send, response)
        try:
            while more:
                data = await threads().run(lane, lambda: b"".join(islice(pieces, PIECES)), seconds=60)
                more = bool(data)
                await send({"type": "http.response.body", "body": data, "more_body": more})
        finally:
            threads().submit(lane, response.close)


def _queueing(lane: Lane, patience: Patience) -> float:
    """Seconds that a request may wait for a thread; a free one takes a moment to begin."""
    return max(SOON, patience.seconds / 2 if lane.seconds is None else lane.seconds)


@cache
def handler() -> Handler:
    """The handler of this process. Django must be set up."""
    return Handler(import_string(settings.SHORTCUT))
