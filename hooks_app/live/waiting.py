"""The three requests that last: waiting for a confirmation, an agent's events, the inbox's events.

A pure ASGI application, which :mod:`portal.asgi` puts before Django's handler: that one holds a thread while a view
runs. Who waits here has subscribed before it read (:mod:`portal.wakeups.wakeups`), and sleeps until woken, until
something runs out, or until its time is up. A look at the rows comes in two sizes: a cheap one, shared by everybody who
was woken on suspicion, says whether anything is different; the full one asks the view itself, which judges the caller
again. Who was woken by name asks at once.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

import structlog
from django.conf import settings
from django.http import HttpResponse

from hooks_app import metrics as measures
from hooks_app.api import stream_views
from hooks_app.api.stream_views import Ticket
from hooks_app.live import reading, streams
from hooks_app.live.reading import Batch, Question
from hooks_app.live.streams import Event
from hooks_app.models import ConfirmationRequest
from portal.api import answers, problems
from portal.lib import clock, ids
from portal.lib.problems import Problem, not_found
from portal.observe import metrics, outages
from portal.serving import traffic
from portal.serving.bounds import Receive, Scope, Send
from portal.wakeups import wakeups
from portal.wakeups.hub import Subscription

CONFIRMATION = re.compile(r"/api/v1/confirmations/([0-9a-fA-F-]{32,36})")
AGENT_EVENTS = re.compile(r"/api/v1/agents/[^/]+/events")
INBOX_EVENTS = re.compile(r"/inbox/events")

# Seconds. A stream has a comment at least every 15, quiet or not; each time it also looks, and judges its caller again.
HEARTBEAT = 10.0
# That is nearly all that idle streams cost. Those whose comments fall into one such part of HEARTBEAT have them at the
# same moment, and share the look and, if they say the same, the judgement.
SHARE = 0.1
# For how long a caller who was judged may be told changes.
TRUST = 2.0
# Seconds between looks while wake-ups don't reach this process, or the rows can't be read.
BLIND = 2.0
# What a stream's look may take.
LOOK_SECONDS = 3.0
# A client that takes nothing for this long is given up.
SEND_TIMEOUT = 30.0
# Added to the time when something runs out, so that it has run out when it is read.
SLACK = 0.005
# What a browser waits before it connects again, in milliseconds.
RETRY = 2000
# Seconds that a request may ask to wait; the view says so to who asks for more.
LONGEST = 60.0

log = structlog.get_logger(__name__)

UNREADABLE = object()


@dataclass(frozen=True)
class Feed:
    """One kind of stream: how it is read, what greets a listener, which events a change makes."""

    name: str
    now: Batch[Any, Any]
    opening: Callable[[Any], Iterator[Event]]
    changes: Callable[[Any, Any, Ticket], Iterator[Event]]


def read_open(keys: Sequence[UUID]) -> dict[UUID, bool]:
    """Which of these requests are still pending."""
    rows = ConfirmationRequest.objects.filter(pk__in=keys, status="pending", expires_at__gt=clock.now())
    return dict.fromkeys(rows.values_list("pk", flat=True), True)


class StreamQuota:
    """How many streams and waits each caller holds in this process."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, holder: str) -> Iterator[None]:
        """One place for the length of the block. Raises ``Problem`` 429 ``too_many_streams``."""
        if self._taken[holder] >= self._limit:
            raise Problem(
                429,
                "too_many_streams",
                f"This caller already holds {self._limit} streams and waits; close some, or share one stream.",
                retry_after=5,
            )
        self._taken[holder] += 1
        try:
            yield
        finally:
            self._taken[holder] -= 1
            if not self._taken[holder]:
                del self._taken[holder]


class Application:
    """The ASGI callable."""

    def __init__(self) -> None:
        self._open = Batch(read_open)
        self._agents = Feed("agent", Batch(streams.read_agents), streams.agent_opening, streams.agent_changes)
        self._inboxes = Feed(
            "inbox", Batch(streams.read_inboxes), streams.inbox_opening, streams.inbox_changes
        )
        self._judged = Batch(reading.answer, size=reading.QUESTIONS)
        self._quota = StreamQuota(settings.STREAMS_PER_CALLER)

    def takes(self, scope: Scope) -> bool:
        """Whether the request is one that lasts."""
        if scope["method"] != "GET":
            return False
        path = scope["path"]
        if CONFIRMATION.fullmatch(path):
            return _wait(scope) not in {None, "0"}
        return bool(AGENT_EVENTS.fullmatch(path) or INBOX_EVENTS.fullmatch(path))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer it, or stop at once when the client goes away."""
        work = asyncio.ensure_future(self._answer(scope, send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            for task in (work, gone):
                if task.done():
                    task.result()
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    async def _answer(self, scope: Scope, send: Send) -> None:
        traffic.follow(scope)
        sender = Sender(send)
        try:
            if CONFIRMATION.fullmatch(scope["path"]):
                await sender.respond(await self._confirmation(scope))
            elif AGENT_EVENTS.fullmatch(scope["path"]):
                await self._stream(self._agents, scope, sender)
            else:
                await self._stream(self._inboxes, scope, sender)
        except Problem as problem:
            await sender.respond(problems.respond(problem))
        except Exception as error:  # the outermost place that knows what the client can be told
            failed = outages.note(error)
            if failed is None:
                log.error("waiting.failed", path=scope["path"], exc_info=error)
                failed = Problem(500, "internal", "The portal failed to answer; its log has the reason.")
            if not sender.started:
                await sender.respond(problems.respond(failed))

    async def _confirmation(self, scope: Scope) -> HttpResponse:
        """Ask the view until its answer is final, or time is up."""
        pk = ids.parse(scope["path"].rpartition("/")[2])
        if pk is None:
            return await reading.ask(scope)
        began = time.monotonic()
        async with wakeups.subscribe(f"confirmation:{pk}") as subscription:
            response = await reading.ask(scope, seconds=_wait_seconds(scope))
            if _pending_until(response) is not None:
                with self._quota.take(_holder(response)):
                    until = began + _wait_seconds(scope)
                    response = await self._wait_out(scope, pk, subscription, response, until)
            _tell(pk, response, time.monotonic() - began)
            return response

    async def _wait_out(
        self, scope: Scope, pk: UUID, subscription: Subscription, response: HttpResponse, deadline: float
    ) -> HttpResponse:
        """Wait from the pending ``response`` to the final one, across whatever goes away and comes back meanwhile.

        ``deadline`` is on the monotonic clock.
        """
        blind = False
        while (expires_at := _pending_until(response)) is not None:
            left = deadline - time.monotonic()
            if left <= 0 or subscription.ended:
                break
            woken = await subscription.wait(min(left, _pause(expires_at, blind)))
            in_time = not subscription.ended and time.monotonic() < deadline
            if in_time and not (woken and subscription.named and not blind):
                is_open = await self._look(pk)
                blind = is_open is None
                if is_open is not False:
                    continue
            answer = await reading.ask(scope)
            # The database is away: as long as there is time, it may come back.
            blind = answer.status_code >= 500 and in_time
            response = response if blind else answer
        return response

    async def _look(self, pk: UUID) -> bool | None:
        """Whether the request is pending; ``None`` while nobody can tell."""
        try:
            return bool(await self._open.load(pk))
        except outages.ERRORS as error:
            if outages.note(error) is None:
                raise
            return None

    async def _stream(self, feed: Feed, scope: Scope, sender: "Sender") -> None:
        """Send events until the client goes, the process stops or the caller may no longer listen."""
        ticket = _ticket(response := await reading.ask(scope))
        if ticket is None:
            await sender.respond(response)
            return
        with self._quota.take(ticket.holder):
            async with wakeups.subscribe(*ticket.topics) as subscription:
                now = await feed.now.load(ticket.key)
                if now is None:
                    raise not_found()
                metrics.count(measures.STREAMS, kind=feed.name)
                await sender.start_events()
                await sender.send_events(feed.opening(now))
                await self._follow(feed, now, ticket, scope, sender, subscription)

    async def _follow(
        self,
        feed: Feed,
        seen: Any,
        ticket: Ticket,
        scope: Scope,
        sender: "Sender",
        subscription: Subscription,
    ) -> None:
        judged = commented = time.monotonic()
        blind = False
        while True:
            # However often something wakes it: the comment is due all the same.
            beat = _next_beat(commented)
            await subscription.wait(min(beat - time.monotonic(), _pause(seen.turns_at, blind)))
            if subscription.ended:
                break
            now = await _read(feed, ticket.key)
            if now is None:
                break
            blind = now is UNREADABLE
            events = [] if blind else list(feed.changes(seen, now, ticket))
            seen = seen if blind else now
            due = time.monotonic() >= beat
            if not events and not due:
                continue
            # Who can't be judged is told nothing: there is nothing to tell.
            if time.monotonic() - judged > TRUST and not blind:
                if _ticket(await self._judged.load(Question.of(scope))) != ticket:
                    break
                judged = time.monotonic()
            await sender.send_events(events, comment=due)
            commented = time.monotonic() if due else commented
        await sender.end()


class Sender:
    """One response on its way out."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def respond(self, response: HttpResponse) -> None:
        """Send a whole response."""
        self.started = True
        await answers.send(self._send, response)

    async def start_events(self) -> None:
        """Open a stream of events."""
        self.started = True
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            (b"x-content-type-options", b"nosniff"),
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(f"retry: {RETRY}\n\n")

    async def send_events(self, events: Iterable[Event], *, comment: bool = False) -> None:
        """Send events, and the comment that keeps the connection alive."""
        frames = [f"event: {event.name}\ndata: {json.dumps(event.data)}\n\n" for event in events]
        await self._write("".join(frames) + (": quiet\n\n" if comment else ""))

    async def end(self) -> None:
        """Close the stream; the client connects again."""
        await self._send({"type": "http.response.body", "body": b""})

    async def _write(self, text: str) -> None:
        async with asyncio.timeout(SEND_TIMEOUT):
            await self._send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def _ticket(response: HttpResponse | None) -> Ticket | None:
    """The ticket in a view's answer; ``None`` when it is a refusal."""
    return response.ticket if isinstance(response, stream_views.TicketResponse) else None


def _holder(response: HttpResponse) -> str:
    """Whom the wait for what is answered counts against."""
    assert isinstance(response, stream_views.WaitableResponse)
    return response.holder


def _next_beat(commented: float) -> float:
    """When a stream that had a comment at ``commented`` has its next, on the monotonic clock; never later than due."""
    share = HEARTBEAT * SHARE
    return commented // share * share + HEARTBEAT


def _tell(pk: UUID, response: HttpResponse, seconds: float) -> None:
    """Note the end of a wait."""
    result = "pending" if _pending_until(response) else "answered"
    metrics.observe(measures.WAIT_SECONDS, seconds, result=result)
    status = (getattr(response, "data", None) or {}).get("status")
    log.info(
        "wait.ended",
        confirmation=str(pk),
        code=response.status_code,
        status=status,
        seconds=round(seconds, 3),
    )


async def _read(feed: Feed, key: Any) -> Any:
    """What a stream is made of now: ``None`` when it is gone, ``UNREADABLE`` while nobody can tell."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await feed.now.load(key)
    except TimeoutError:
        return UNREADABLE  # every thread is taken; the stream's comment is due all the same
    except outages.ERRORS as error:
        if outages.note(error) is None:
            raise
        return UNREADABLE


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _wait(scope: Scope) -> str | None:
    """The query's ``wait`` as it was sent; the view judges it."""
    values = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get("wait")
    return values[-1] if values else None


def _wait_seconds(scope: Scope) -> float:
    """The seconds of ``wait``; 0 for what the view will refuse."""
    try:
        return min(max(0.0, float(_wait(scope) or 0)), LONGEST)
    except ValueError:
        return 0.0


def _pending_until(response: HttpResponse) -> datetime | None:
    """``expires_at`` of a confirmation that is answered as pending."""
    data = getattr(response, "data", None)
    if response.status_code != 200 or not isinstance(data, dict) or data.get("status") != "pending":
        return None
    return datetime.fromisoformat(data["expires_at"])


def _seconds_until(moment: datetime | None) -> float:
    if moment is None:
        return float("inf")
    return max(0.0, (moment - clock.now()).total_seconds()) + SLACK


def _pause(turns_at: datetime | None, blind: bool) -> float:
    """How long to sleep at most: until something runs out, or for a moment while changes may pass unheard."""
    if blind:
        return BLIND
    return min(_seconds_until(turns_at), float("inf") if wakeups.hears() else BLIND)


application = Application()
