"""Which request may take how many of the threads that answer, and how long each kind of client waits.

The times end before the client's own patience does, so that it reads that nothing was recorded, and nothing is recorded
behind its back. The lanes keep what may have to wait (for the database's write lock, for a turn to hash a password)
from taking every thread: who only reads, and who waits for news, goes on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from portal.lib import deadline


@dataclass(frozen=True)
class Lane:
    """A kind of work, the most pressing with the lowest ``rank``. At most ``threads`` of it run at a time; who finds
    ``waiting`` before it is refused at once.

    ``seconds`` is how long it may wait for a thread; by itself half of its client's patience: the rest is for the work.
    """

    name: str
    threads: int
    rank: int = 9
    waiting: int = 1_000_000
    seconds: float | None = None


@dataclass(frozen=True)
class Lanes:
    """Every kind of work, the most pressing first."""

    looks: Lane  # of those who wait for news, and of whoever watches over the process
    taps: Lane  # callbacks of the platforms, which show an error after three seconds
    reads: Lane  # GET and HEAD
    writes: Lane
    sign_ins: Lane  # what hashes passwords


@cache
def lanes() -> Lanes:
    """The lanes of this process, for the number of threads that the settings give."""
    size = settings.THREADS
    return Lanes(
        looks=Lane("looks", size, 0),
        taps=Lane("taps", size - 1, 1),
        reads=Lane("reads", size - 1, 2),
        writes=Lane("writes", size - 2, 3),
        sign_ins=Lane(
            "sign_ins",
            min(settings.HASHING_AT_ONCE, size - 2),
            4,
            settings.HASHING_WAITING,
            settings.HASHING_WAIT_SECONDS,
        ),
    )


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
    # Signing in waits for its turn to hash as well; an admin's page may have much to write. All others too: not every
    # target begins with a slash (`OPTIONS *`).
    Patience("", 5.0, False),
)
WATCHED = ("/healthz", "/readyz", "/metrics")
HASHING = ("/login/", "/admin/login/", "/password/", "/account/")


def patience(path: str) -> Patience:
    """The patience of whoever asks for ``path``."""
    return next(patience for patience in TABLE if path.startswith(patience.prefix))


def lane(method: str, path: str) -> Lane:
    """The lane of a request."""
    if path in WATCHED:
        return lanes().looks
    if method in {"GET", "HEAD"}:
        return lanes().reads
    if path.startswith("/channels/"):
        return lanes().taps
    return lanes().sign_ins if path.startswith(HASHING) else lanes().writes


def bounded(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: the deadline begins when the request is there as a whole, or earlier, where it had to wait."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        found = patience(request.path_info)
        with deadline.within(found.seconds, strict=found.strict):
            return get_response(request)

    return answer
