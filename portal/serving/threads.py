"""The threads that answer requests: so many, each with a database connection that it keeps.

They are made with the first work and stay. Everything that reads or writes for somebody on the other side of a
socket runs in one of them: views, the looks of those who wait, polls. What lasts (a long poll, a stream) sleeps on the
loop and holds none.
"""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

from django.conf import settings
from django.db import close_old_connections, connections

from portal.lib.problems import Problem
from portal.serving.lanes import Lane

R = TypeVar("R")


class Full(Problem):
    """503 ``overloaded``: no thread was free in time; nothing of the work has begun."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(
            503,
            "overloaded",
            "More is asked of the portal than it can do at once; nothing was changed. Try again.",
            retry_after=2,
        )
        self.lane = lane


class _Job:
    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.future: Future[Any] = Future()

    def run(self) -> None:
        """Do the work with a connection that lives, unless whoever asked has given up."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            close_old_connections()
            result = self.work()
        except BaseException as error:  # noqa: BLE001  # it belongs to whoever asked
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class Threads:
    """At most ``size`` threads, and lanes that share them: the first lane that may run has the next free one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._condition = threading.Condition()
        self._queues: dict[Lane, deque[_Job]] = {}
        self._running: Counter[Lane] = Counter()
        self._started = 0
        self._closings = 0

    def submit(self, lane: Lane, work: Callable[[], R]) -> "Future[R]":
        """Have ``work`` done. Raises :class:`Full` where the lane takes no more."""
        job = _Job(work)
        with self._condition:
            queue = self._queue(lane)
            if len(queue) >= lane.waiting and self._running[lane] >= lane.threads:
                raise Full(lane)
            queue.append(job)
            self._condition.notify()
            while self._started < self._size:
                self._started += 1
                threading.Thread(target=self._work, name=f"portal-{self._started}", daemon=True).start()
        return job.future

    async def run(self, lane: Lane, work: Callable[[], R], *, seconds: float) -> R:
        """What ``work`` returns. Raises :class:`Full` where it could not begin within ``seconds``.

        Once begun it comes to its end, also when the caller goes away.
        """
        future = self.submit(lane, work)
        waiter = asyncio.wrap_future(future)
        try:
            done, _ = await asyncio.wait({waiter}, timeout=seconds)
            if not done and self._withdraw(lane, future):
                raise Full(lane)
            return await asyncio.shield(waiter)
        except asyncio.CancelledError:
            self._withdraw(lane, future)
            raise

    def waiting(self) -> int:
        """How many jobs wait for a thread."""
        with self._condition:
            return sum(len(queue) for queue in self._queues.values())

    def give_back_connections(self) -> None:
        """Have every thread close its connections as soon as it is idle; the next work opens them anew."""
        with self._condition:
            self._closings += 1
            self._condition.notify_all()

    def _queue(self, lane: Lane) -> deque[_Job]:
        """The lane's jobs. Lanes keep the order of their rank."""
        if lane not in self._queues:
            known = {**self._queues, lane: deque[_Job]()}
            self._queues = dict(sorted(known.items(), key=lambda item: item[0].rank))
        return self._queues[lane]

    def _withdraw(self, lane: Lane, future: "Future[Any]") -> bool:
        """Take back what has not begun; whether that was so."""
        if not future.cancel():
            return False
        with self._condition:
            queue = self._queue(lane)
            self._queues[lane] = deque(job for job in queue if job.future is not future)
        return True

    def _next(self) -> tuple[Lane, _Job] | None:
        for lane, queue in self._queues.items():
            if queue and self._running[lane] < lane.threads:
                self._running[lane] += 1
                return lane, queue.popleft()
        return None

    def _work(self) -> None:
        closings = 0
        while True:
            with self._condition:
                while (found := self._next()) is None and closings == self._closings:
                    self._condition.wait()
                closings = self._closings if found is None else closings
            if found is None:
                connections.close_all()
                continue
            lane, job = found
            job.run()
            del found, job  # what they hold is not to live until the next one comes
            with self._condition:
                self._running[lane] -= 1
                self._condition.notify()  # there may be work that only this lane's limit held back


@cache
def threads() -> Threads:
    """The threads of this process."""
    return Threads(settings.THREADS)
