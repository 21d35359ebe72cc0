"""What all sessions of one process share: its connection to the portal, its call log, its threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from hookgate.engine import threads
from hookgate.engine.bounded import End
from hookgate.journal.calllog import CallLog
from hookgate.registry.feeds import AgentFeed
from hookgate.registry.source import RegistrySource
from hookgate.wire.pacing import Pacing
from hookgate.wire.portal import Portal
from hookgate.wire.waits import Waits

T = TypeVar("T")


class Leaves(Protocol):
    """A session, as its process sees it."""

    def leave(self) -> None:
        """Detach from the portal, at once."""


class Process:
    """Made by `Runtime`, which is one. ``clock``: monotonic seconds. ``sessions`` are those that are open;
    ``detaching``: shutdown has begun, ``closed``: it is over, or the process was never entered."""

    def __init__(
        self,
        portal: Portal,
        call_log: CallLog,
        *,
        pacing: Pacing,
        clock: Callable[[], float],
        python_handlers: tuple[str, ...],
        max_threads: int,
    ) -> None:
        self.portal, self.call_log = portal, call_log
        self.pacing, self.clock = pacing, clock
        self.python_handlers = python_handlers
        self.waits = Waits(portal, pacing, clock)
        self.executor = ThreadPoolExecutor(max_threads, thread_name_prefix="hookgate")
        self.sessions: set[Leaves] = set()
        self.detaching = False
        self.closed = True
        self._sources: dict[tuple[str, str], RegistrySource] = {}
        self._feeds: dict[str, AgentFeed] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def source(self, agent: str, surface: str) -> RegistrySource:
        """The registry source that all sessions of one agent and surface share."""
        key = (agent, surface)
        if key not in self._sources:
            self._sources[key] = RegistrySource(self.portal, agent, surface, self.clock)
        return self._sources[key]

    def feed(self, agent: str) -> AgentFeed:
        """The event stream that all sessions of one agent share."""
        if agent not in self._feeds:
            self._feeds[agent] = AgentFeed(self.portal, agent, self.pacing, self.waits)
        return self._feeds[agent]

    async def run_plain(self, function: Callable[..., Any], *args: Any) -> End:
        """How a tool's plain code ends; it runs in one of the tools' threads."""
        return await threads.call_plain(function, *args, executor=self.executor)

    def background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something beside the calls; `close` waits for it, for a bounded time."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def detach(self) -> None:
        """Shutdown has begun: whatever is cancelled from now on leaves its request pending. Safe to call
        from a signal handler of the loop."""
        self.detaching = True

    async def close(self) -> None:
        """Leave every session, send what is left for a bounded time, close the connections. Once."""
        if self.closed:
            return
        self.detaching = True
        for session in list(self.sessions):
            session.leave()
        self.closed = True
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self.pacing.close_bound)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.call_log.close()
        for feed in self._feeds.values():
            await feed.aclose()
        for source in self._sources.values():
            await source.close()
        await self.portal.close()
        self.executor.shutdown(wait=False)
