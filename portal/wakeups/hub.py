"""Who waits in this process, and for what: the meeting place of :mod:`portal.wakeups.wakeups`."""

import asyncio
import threading
from collections.abc import Callable, Iterable


class Subscription:
    """One waiter's ear. Belongs to the event loop in which it was made."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self.loop = asyncio.get_running_loop()
        # The process is stopping: answer with what is known, and go.
        self.ended = False
        # The last wake-up named one of the topics; otherwise it went to everybody, on suspicion.
        self.named = self._named = False
        self._poked = asyncio.Event()

    async def wait(self, timeout_seconds: float) -> bool:
        """Sleep until woken, at most ``timeout_seconds``. True when there is a reason to read again.

        A wake-up that came since the last call counts. Once ``ended`` is set this always returns True at once.
        """
        try:
            async with asyncio.timeout(max(0.0, timeout_seconds)):
                await self._poked.wait()
        except TimeoutError:
            return False
        if not self.ended:
            self._poked.clear()
        self.named, self._named = self._named, False
        return True

    def poke(self) -> None:
        """Wake the waiter, on suspicion. Only in the thread of its own loop."""
        self._poked.set()

    def poke_by_name(self) -> None:
        """Wake the waiter, whose topic was named. Only in the thread of its own loop."""
        self._named = True
        self._poked.set()

    def end(self) -> None:
        """Wake the waiter for good. Only in the thread of its own loop."""
        self.ended = True
        self._poked.set()


class Hub:
    """Every subscription of this process, by topic. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._all: set[Subscription] = set()
        self._by_topic: dict[str, set[Subscription]] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    def add(self, subscription: Subscription) -> None:
        """Wake it from now on. In a closed hub it ends at once. Only in the thread of its own loop."""
        with self._changed:
            if self._closed:
                subscription.end()
                return
            self._all.add(subscription)
            for topic in subscription.topics:
                self._by_topic.setdefault(topic, set()).add(subscription)
            self._changed.notify_all()

    def remove(self, subscription: Subscription) -> None:
        """Forget it."""
        with self._changed:
            self._all.discard(subscription)
            for topic in subscription.topics:
                waiting = self._by_topic.get(topic, set())
                waiting.discard(subscription)
                if not waiting:
                    self._by_topic.pop(topic, None)

    def wake(self, topics: Iterable[str]) -> None:
        """Wake whoever subscribed to one of ``topics``."""
        with self._changed:
            found = {waiter for topic in topics for waiter in self._by_topic.get(topic, ())}
        _tell(found, Subscription.poke_by_name)

    def wake_all(self) -> None:
        """Wake everybody: something may have been missed."""
        with self._changed:
            found = set(self._all)
        _tell(found, Subscription.poke)

    def close(self) -> None:
        """End every subscription, and every later one as soon as it is made."""
        with self._changed:
            self._closed = True
            found = set(self._all)
            self._changed.notify_all()
        _tell(found, Subscription.end)

    def wait_for_someone(self, timeout_seconds: float) -> bool:
        """Block this thread until somebody is subscribed, at most ``timeout_seconds``; says whether somebody is."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._all) or self._closed, timeout_seconds)
            return bool(self._all)


def _tell(found: set[Subscription], what: Callable[[Subscription], None]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Subscription]] = {}
    for subscription in found:
        by_loop.setdefault(subscription.loop, []).append(subscription)
    for loop, waiters in by_loop.items():
        try:
            loop.call_soon_threadsafe(_each, what, waiters)
        except RuntimeError:
            continue  # the loop has been closed, and its waiters with it


def _each(what: Callable[[Subscription], None], waiters: list[Subscription]) -> None:
    for subscription in waiters:
        what(subscription)
