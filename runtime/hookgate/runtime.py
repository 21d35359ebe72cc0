"""The connection of one process to the portal."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from hookgate import threads
from hookgate.bounded import End
from hookgate.calllog import CallLog
from hookgate.feeds import AgentFeed
from hookgate.pacing import Pacing
from hookgate.portal import Portal
from hookgate.session import OnEvent, Session
from hookgate.source import RegistrySource
from hookgate.spool import Spool
from hookgate.waits import Waits

if TYPE_CHECKING:
    import httpx

log = logging.getLogger("hookgate")
T = TypeVar("T")


class Runtime:
    """Use it as ``async with Runtime(url, key, name="worker-1")``; one per process is enough.

    ``url``: the portal's origin; plain http only to this machine, unless ``allow_http`` says that the network is
    trusted. ``timeout``: seconds for one short request. ``python_handlers``: packages (``"acme."``) from which
    handlers named in the portal may be imported. ``spool``: folder that keeps call-log entries until the
    portal has them; without it ``HOOKGATE_SPOOL_DIR``, else the user's state folder. ``clock``: monotonic
    seconds. ``transport`` and ``pacing`` are for tests.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        name: str | None = None,
        timeout: float = 5.0,
        allow_http: bool = False,
        python_handlers: Sequence[str] = (),
        max_threads: int = 64,
        spool: str | os.PathLike[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        pacing: Pacing | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if isinstance(python_handlers, str):
            raise TypeError("python_handlers is a list of package names")
        self.name = name or _default_name()
        self.clock = clock
        self.pacing = pacing or Pacing()
        self.python_handlers = tuple(python_handlers)
        self.portal = Portal(
            url, key, name=self.name, timeout=timeout, allow_http=allow_http, transport=transport
        )
        self.call_log = CallLog(self.portal, self.pacing, Spool(spool, self.portal.url), key)
        self.waits = Waits(self.portal, self.pacing, clock)
        self.executor = ThreadPoolExecutor(max_threads, thread_name_prefix="hookgate")
        self.sessions: set[Session] = set()
        self.detaching = False
        self.closed = True
        self._pid = os.getpid()
        self._sources: dict[tuple[str, str], RegistrySource] = {}
        self._feeds: dict[str, AgentFeed] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    @classmethod
    def from_env(cls, **options: Any) -> Self:
        """A runtime from ``HOOKGATE_URL`` and ``HOOKGATE_KEY`` (or ``HOOKGATE_KEY_FILE``).

        Raises LookupError naming the variable that is missing. ``options`` as for the constructor.
        """
        return cls(*read_environment(), **options)

    async def __aenter__(self) -> Self:
        if self.detaching or not self.closed:
            raise RuntimeError("a runtime is entered once; make another one")
        self.closed = False
        self.call_log.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def detach(self) -> None:
        """Shutdown has begun: whatever is cancelled from now on leaves its request pending. Safe to call
        from a signal handler of the loop."""
        self.detaching = True

    async def aclose(self) -> None:
        """Leave every session, send what is left for a bounded time, close the connections."""
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

    def session(
        self,
        agent: str,
        *,
        surface: str = "chat",
        user: Mapping[str, Any] | None = None,
        conversation_id: str | None = None,
        on_event: OnEvent | None = None,
        stubs: Mapping[str, Callable[[dict[str, Any]], Any]] | None = None,
    ) -> Session:
        """A session of ``agent`` (slug or id) for ``user`` {id, name, email}; use it as ``async with``.

        ``conversation_id`` and a call's ``tool_call_id`` are what a restarted process re-attaches by.
        ``on_event`` gets dicts with ``type``: awaiting_confirmation, confirmation_resolved, blocked.
        ``stubs`` stand in for tools on surface ``eval``.
        """
        if self.closed:
            raise RuntimeError("enter the runtime first: async with Runtime(…) as runtime")
        if os.getpid() != self._pid:
            raise RuntimeError(
                "this runtime was entered before the process was forked; enter one in each child"
            )
        return Session(
            self,
            agent,
            surface=surface,
            user=user,
            conversation_id=conversation_id,
            on_event=on_event,
            stubs=stubs,
        )

    def open_child(
        self,
        parent: Session,
        agent: str,
        on_event: OnEvent | None,
        *,
        surface: str,
        path: str,
        parent_request: str | None,
    ) -> Session:
        """A delegate's session. Within an evaluation it is one too: nobody may be asked there."""
        return Session(
            self,
            agent,
            surface="eval" if parent.surface == "eval" else surface,
            user=parent.initiator,
            conversation_id=parent.conversation_id,
            on_event=on_event,
            stubs=parent.stubs,
            depth=parent.depth + 1,
            path=path,
            parent_request=parent_request,
        )

    async def announce_tools(self, agent: str, tools: Sequence[Mapping[str, Any]]) -> None:
        """Tell the portal which tools this runtime has: [{name, description, input_schema}]. Shown to the
        admin who writes filters. Raises Unreachable and Refused of `hookgate.portal`."""
        await self.portal.call(
            "PUT", f"agents/{quote(agent, safe='')}/tools", body={"tools": [dict(tool) for tool in tools]}
        )

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
        """Run something beside the calls; `aclose` waits for it, for a bounded time."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def read_environment() -> tuple[str, str]:
    """URL and key. Raises LookupError naming the variable that is missing."""
    url, key = os.environ.get("HOOKGATE_URL"), os.environ.get("HOOKGATE_KEY")
    if not url:
        raise LookupError("HOOKGATE_URL is not set: the portal's origin, such as https://hookgate.example")
    if not key and (path := os.environ.get("HOOKGATE_KEY_FILE")):
        key = Path(path).read_text(encoding="utf-8").strip()
    if not key:
        raise LookupError("HOOKGATE_KEY (or HOOKGATE_KEY_FILE) is not set: a runtime key of the portal")
    return url, key


def _default_name() -> str:
    host = socket.gethostname().encode("ascii", "ignore").decode() or "runtime"
    return f"{host[:80]}-{os.getpid()}"
