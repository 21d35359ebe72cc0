"""Wake-ups: "something about this topic changed, read it again". They carry no content and may come for nothing.

A topic is ``confirmation:UUID``, ``agent:UUID``, ``organization:UUID`` or ``inbox:UUID`` (of the organization). Who
waits subscribes *first*, then reads, then sleeps: so a change is either read, or wakes. Within the process a wake-up is
a call into the waiter's event loop (:mod:`portal.wakeups.hub`); a relay (:mod:`portal.wakeups.relays`) carries it to
other processes. A thousand waiters cost a thousand futures, and neither a thread nor a connection each.
"""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from django.db import transaction

from portal.observe import metrics
from portal.wakeups import relays
from portal.wakeups.hub import Hub, Subscription

# Seconds between attempts to reach the relay: the first, and the longest.
RECONNECT = (0.2, 2.0)
STOP_TIMEOUT = 2.0  # seconds

log = structlog.get_logger(__name__)


class WakeupListener:
    """This process's hub, its relay and the thread that listens to it."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.relay = relays.configured()
        self.hears = threading.Event()
        # What an operator has to do before it can hear; empty while that is not known.
        self.remedy = ""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def stopped(self) -> bool:
        """Whether it has been closed for good."""
        return self._stop.is_set()

    def start(self) -> None:
        """Start to listen, once."""
        with self._lock:
            if self._thread is None and not self.stopped:
                self._thread = threading.Thread(target=self._listen, name="wakeups", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End every subscription and stop listening."""
        self._stop.set()
        self.hub.close()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT)

    def _listen(self) -> None:
        delay = RECONNECT[0]
        while not self._stop.is_set():
            try:
                self.relay.listen(self.hub, connected=self.hears.set, stop=self._stop)
            except Exception as error:  # noqa: BLE001  # whatever cuts us off, the only remedy is to connect again
                if self.hears.is_set():
                    delay = RECONNECT[0]
                    log.warning("wakeups.cut_off", error=type(error).__name__)
                self._note(error)
                self.hears.clear()
                # Whoever waits looks now and then by itself from here on.
                self.hub.wake_all()
            self._stop.wait(delay)
            delay = min(delay * 2, RECONNECT[1])

    def _note(self, error: Exception) -> None:
        remedy = str(error) if isinstance(error, relays.NotDirect) else ""
        if remedy and remedy != self.remedy:
            log.error("wakeups.not_heard", remedy=remedy)
        self.remedy = remedy


_lock = threading.Lock()
_listener: WakeupListener | None = None


def _here() -> WakeupListener:
    global _listener
    with _lock:
        if _listener is None:
            _listener = WakeupListener()
        return _listener


def start() -> None:
    """Open for this process, anew after :func:`stop`. A first subscription does it too; a server does it ahead."""
    global _listener
    with _lock:
        if _listener is not None and _listener.stopped:
            _listener = None
    _here().start()


def stop() -> None:
    """End every subscription of this process, and new ones at once: who waits answers with what is known."""
    _here().stop()


def publish(*topics: str) -> None:
    """Wake whoever waits for one of ``topics``, in every process. Call it after the commit. Never raises; under 1 s."""
    if not topics:
        return
    office = _here()
    office.hub.wake(topics)
    office.relay.send(topics)


def publish_on_commit(*topics: str) -> None:
    """:func:`publish` when the current transaction commits; at once outside of one."""
    transaction.on_commit(lambda: publish(*topics))


@asynccontextmanager
async def subscribe(*topics: str) -> AsyncIterator[Subscription]:
    """Hear about ``topics`` for the length of the block: subscribe, then read, then ``await subscription.wait(…)``."""
    office = _here()
    office.start()
    subscription = Subscription(topics)
    office.hub.add(subscription)
    metrics.WAITING.inc()
    try:
        yield subscription
    finally:
        metrics.WAITING.dec()
        office.hub.remove(subscription)


def waiting() -> int:
    """How many subscriptions this process holds."""
    return len(_here().hub)


def remedy() -> str:
    """What an operator has to do before other processes' changes reach this one, if that is known."""
    return _here().remedy


def hears() -> bool:
    """Whether other processes' changes reach this one now."""
    return _here().hears.is_set()
