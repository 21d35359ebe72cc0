"""Waiting for the ends of requests, many at once, with few connections.

Where the agent's event stream is healthy, who waits sleeps until its event, and reads the request then: measured, as
fast as a long poll's answer. Without a stream everybody polls, a bounded number at a time and in turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from hookgate.wire.pacing import Pacing
from hookgate.wire.portal import Portal, Reply, Unreachable

log = logging.getLogger("hookgate")

STATUSES: Final = frozenset({"pending", "approved", "rejected", "expired", "cancelled", "undeliverable"})
# How many ends are remembered: one may be told before the request's own creation was answered.
_REMEMBERED: Final = 2000


class Feed(Protocol):
    """The agent's event stream, as far as waiting goes."""

    healthy: bool
    epoch: int


class _Wait:
    """One call that waits. ``unread``: the request is to be read before sleeping again. ``turn``: its turn
    to poll was handed to it."""

    __slots__ = ("feed", "turn", "unread", "wake")

    def __init__(self, feed: Feed, *, unread: bool) -> None:
        self.feed = feed
        self.unread = unread
        self.turn = False
        self.wake = asyncio.Event()


class Waits:
    """All calls of a runtime that wait for people."""

    def __init__(self, portal: Portal, pacing: Pacing, clock: Callable[[], float]) -> None:
        self._portal = portal
        self._pacing = pacing
        self._clock = clock
        self._waiting: dict[str, set[_Wait]] = {}
        self._count = 0
        self._polling = 0
        self._queue: deque[_Wait] = deque()
        self._reading = asyncio.Semaphore(pacing.reads_at_once)
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def wait_for_end(
        self, request_id: str, feed: Feed, *, ends_at: float, epoch: int
    ) -> dict[str, Any] | None:
        """The request once it is no longer pending; None when it still is ``grace`` after ``ends_at``, which is
        on the clock. ``epoch`` is the feed's from before the request was posted. Raises Refused."""
        wait = _Wait(feed, unread=feed.epoch != epoch or request_id in self._ended)
        self._waiting.setdefault(request_id, set()).add(wait)
        self._count += 1
        pause = self._pacing.pause_first
        try:
            while self._clock() < ends_at + self._pacing.grace:
                try:
                    resource = await self._look(request_id, wait, ends_at)
                except Unreachable as error:
                    log.info("waiting for request %s: %s; trying again", request_id, error)
                    await asyncio.sleep(max(pause, min(error.retry_after or 0.0, self._pacing.pause_last)))
                    pause = min(pause * 2, self._pacing.pause_last)
                    continue
                if resource is not None and resource["status"] != "pending":
                    return resource
                pause = self._pacing.pause_first
            return None
        finally:
            self._forget(request_id, wait)

    def tell(self, request_id: str, status: str) -> None:
        """An event: this request has this status now. It only wakes; the portal's answer says what holds."""
        if status == "pending":
            return
        self._ended[request_id] = None
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        for wait in self._waiting.get(request_id, ()):
            wait.unread = True
            wait.wake.set()

    def read_again(self, feed: Feed) -> None:
        """The stream is up: whatever ended before was told to nobody, so each request is read once."""
        for wait in self._waits_of(feed):
            wait.unread = True
            wait.wake.set()

    def fall_back(self, feed: Feed) -> None:
        """The stream is down: those who sleep until their event begin to poll."""
        for wait in self._waits_of(feed):
            wait.wake.set()

    def _waits_of(self, feed: Feed) -> list[_Wait]:
        return [wait for waits in self._waiting.values() for wait in waits if wait.feed is feed]

    async def _look(self, request_id: str, wait: _Wait, ends_at: float) -> dict[str, Any] | None:
        """One step: read, poll, or sleep; None after sleeping."""
        if wait.unread:
            wait.unread = False
            try:
                async with self._reading:
                    return await self._get(request_id, hold=0.0)
            except Unreachable:
                wait.unread = True
                raise
        if self._take_turn(wait):
            try:
                return await self._poll(request_id, wait)
            finally:
                self._pass_turn()
        await self._sleep(wait, ends_at)
        return None

    async def _get(self, request_id: str, *, hold: float) -> dict[str, Any]:
        params = {"wait": f"{hold:g}"} if hold else None
        reply = await self._portal.call(
            "GET", f"confirmations/{request_id}", params=params, hold=hold, lane="waits"
        )
        return read_resource(reply, request_id)

    async def _poll(self, request_id: str, wait: _Wait) -> dict[str, Any]:
        pacing, hold = self._pacing, self._pacing.poll_hold
        if self._count > pacing.polls_at_once:
            # Whole seconds: the portal takes no others.
            hold = min(hold, max(1.0, hold * pacing.polls_at_once // self._count))
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        resource = await self._get(request_id, hold=hold)
        if resource["status"] == "pending":
            # A portal that doesn't hold must not be asked all the time.
            await asyncio.sleep(max(0.0, pacing.poll_floor - (loop.time() - asked_at)))
        return resource

    def _take_turn(self, wait: _Wait) -> bool:
        if wait.turn:
            wait.turn = False
            return True
        # Nobody goes before those who queue.
        if wait.feed.healthy or self._queue or self._polling >= self._pacing.polls_at_once:
            return False
        self._polling += 1
        return True

    def _pass_turn(self) -> None:
        if self._queue:
            following = self._queue.popleft()
            following.turn = True
            following.wake.set()
        else:
            self._polling -= 1

    async def _sleep(self, wait: _Wait, ends_at: float) -> None:
        now = self._clock()
        pause = ends_at + self._pacing.grace - now
        if wait.feed.healthy:
            # Should an event get lost, no call waits for its request's whole life. Spread, lest all read at once.
            pause = min(pause, self._pacing.read_every * random.uniform(0.75, 1.0))  # noqa: S311
            if now < ends_at:
                pause = min(pause, ends_at - now + 0.5)
        else:
            self._queue.append(wait)
        try:
            async with asyncio.timeout(pause):
                await wait.wake.wait()
        except TimeoutError:
            wait.unread = True
        finally:
            wait.wake.clear()
            with contextlib.suppress(ValueError):
                self._queue.remove(wait)

    def _forget(self, request_id: str, wait: _Wait) -> None:
        waits = self._waiting[request_id]
        waits.discard(wait)
        if not waits:
            del self._waiting[request_id]
        self._count -= 1
        if wait.turn:
            self._pass_turn()


def read_resource(reply: Reply, expected_id: str | None = None) -> dict[str, Any]:
    """The confirmation request in an answer. Raises Unreachable for anything else."""
    body = reply.body
    if (
        not isinstance(body, dict)
        or not isinstance(body.get("id"), str)
        or not isinstance(body.get("status"), str)
        or body["status"] not in STATUSES
        or (expected_id is not None and body["id"] != expected_id)
    ):
        raise Unreachable("the portal's answer is not the confirmation request")
    return body
