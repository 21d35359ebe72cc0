"""How long each kind of client waits for the portal: the deadlines of :mod:`portal.lib.deadline`, by address.

They end before the client's own patience does, so that it reads that nothing was recorded, and nothing is recorded
behind its back.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from portal.lib import deadline


@dataclass(frozen=True)
class Patience:
    """``seconds`` from the last byte of the request. ``strict``: nothing takes effect after them."""

    prefix: str
    seconds: float
    strict: bool


# The first that fits.
TABLE = (
    # Feishu and Slack let a person see an error after three seconds, WeCom after five.
    Patience("/channels/", 2.0, True),
    # Whoever watches over processes asks again, and soon.
    Patience("/healthz", 1.0, False),
    Patience("/readyz", 1.0, False),
    # Entries have ids, and a report that arrives twice counts once: a big one may take its time.
    Patience("/api/v1/calls", 4.0, False),
    Patience("/api/v1/sessions", 4.0, False),
    # A runtime waits for five seconds.
    Patience("/api/", 4.0, True),
    Patience("/inbox/", 5.0, True),
    # Signing in waits for its turn to hash as well; an admin's page may have much to write.
    Patience("/", 5.0, False),
)


def of(path: str) -> Patience:
    """The patience of whoever asks for ``path``."""
    return next(patience for patience in TABLE if path.startswith(patience.prefix))


@sync_and_async_middleware
def bounded(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware: the deadline begins when the request is there as a whole."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            patience = of(request.path_info)
            with deadline.within(patience.seconds, strict=patience.strict):
                answer: Awaitable[HttpResponseBase] = get_response(request)
                return await answer

        return answer_later

    def answer_now(request: HttpRequest) -> HttpResponseBase:
        patience = of(request.path_info)
        with deadline.within(patience.seconds, strict=patience.strict):
            answer: HttpResponseBase = get_response(request)
            return answer

    return answer_now
