"""The runtime for programs without asyncio: the same engine on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import queue
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hookgate import origin
from hookgate.engine.bounded import End
from hookgate.engine.running import InCaller
from hookgate.events import HookEvent
from hookgate.result import MergedResult, Outcome
from hookgate.runtime import Runtime, read_environment
from hookgate.session import acting
from hookgate.sync import loopthread
from hookgate.sync.loopthread import LoopThread
from hookgate.wire import portal_url

if TYPE_CHECKING:
    from hookgate.engine.hook_registry import HookRegistry
    from hookgate.session.session import Delegation, Session


class SyncRuntime:
    """`hookgate.Runtime` for plain programs; use it as ``with``. Options as for `Runtime`.

    Any number of threads may use it and its sessions. Ctrl-C while a call waits for people detaches it.
    Raises RuntimeError in a thread that runs an event loop, and in a child of the process that entered it.
    """

    def __init__(self, url: str, key: str, **options: Any) -> None:
        # The runtime itself is made on its loop: what can be refused at once is.
        self._arguments = (portal_url.check(url, allow_http=bool(options.get("allow_http"))), key)
        self._options = options
        self._loop: LoopThread | None = None
        self._runtime: Runtime | None = None

    @classmethod
    def from_env(cls, **options: Any) -> Self:
        """As `Runtime.from_env`."""
        return cls(*read_environment(), **options)

    def __enter__(self) -> Self:
        self._loop = LoopThread()
        try:
            self._runtime = self._loop.run(self._open())
        except BaseException:
            self._loop.close()
            raise
        return self

    async def _open(self) -> Runtime:
        return await Runtime(*self._arguments, **self._options).__aenter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._runtime is not None
        try:
            self._loop.run_last(self._runtime.aclose())
        finally:
            self._loop.close()

    def detach(self) -> None:
        """As `Runtime.detach`."""
        if self._runtime is not None:
            self._runtime.detach()

    def announce_tools(self, agent: str, tools: Sequence[Mapping[str, Any]]) -> None:
        """As `Runtime.announce_tools`."""
        loop, runtime = self._entered()
        loop.run(runtime.announce_tools(agent, tools))

    def session(self, agent: str, **options: Any) -> SyncSession:
        """As `Runtime.session`; use it as ``with``."""
        loop, runtime = self._entered()
        return SyncSession(loop, runtime, lambda: runtime.session(agent, **options))

    def _entered(self) -> tuple[LoopThread, Runtime]:
        if self._loop is None or self._runtime is None:
            raise RuntimeError("enter the runtime first: with SyncRuntime(…) as runtime")
        return self._loop, self._runtime


class SyncSession:
    """`Session` for plain programs."""

    def __init__(self, loop: LoopThread, runtime: Runtime, make: Callable[[], Session | Delegation]) -> None:
        self._loop = loop
        self._runtime = runtime
        self._make = make
        self._manager: Session | Delegation | None = None
        self._session: Session | None = None

    def __enter__(self) -> Self:
        self._session = self._loop.run(self._open())
        return self

    async def _open(self) -> Session:
        self._manager = self._make()
        return await self._manager.__aenter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._manager is not None
        self._loop.run_last(self._manager.__aexit__(kind, error, traceback))

    @property
    def context(self) -> str:
        """The text that SessionStart hooks want in the first prompt."""
        return self._entered().context

    @property
    def hooks(self) -> HookRegistry:
        """The declared hooks and those that you register."""
        return self._entered().hooks

    @property
    def stopped(self) -> str | None:
        """Why this session runs nothing any more."""
        return self._entered().stopped

    def call_tool(
        self, name: str, args: dict[str, Any], *, execute: Callable[[dict[str, Any]], Any], **options: Any
    ) -> Outcome:
        """As `Session.call_tool`. A plain ``execute`` runs in the calling thread, an async one on the loop."""
        session, loop = self._entered(), self._loop.loop
        jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()

        async def run_here(function: Callable[..., Any], *arguments: Any) -> End:
            job = _Job(function, arguments, loop.create_future())
            jobs.put(job)
            return await job.done

        tool = InCaller(execute, run_here)
        future = self._loop.submit(session.call_tool(name, args, execute=tool, **options))  # type: ignore[arg-type]
        future.add_done_callback(lambda _: jobs.put(None))
        try:
            while (job := jobs.get()) is not None:
                job.run(loop)
            return loopthread.take(future)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                # The program is about to end, however long its own clean-up takes: the request is for the next one.
                self._runtime.detach()
            future.cancel()
            raise

    def emit(self, event: HookEvent | str, **fields: Any) -> MergedResult:
        """As `Session.emit`."""
        return self._loop.run(self._entered().emit(event, **fields))

    def cancel(self, tool_call_id: str) -> bool:
        """As `Session.cancel`; call it from another thread than the one that waits."""
        return self._loop.run(self._entered().cancel(tool_call_id))

    def delegate(self, agent: str, **options: Any) -> SyncSession:
        """As `Session.delegate`; use it as ``with``."""
        session = self._entered()
        return SyncSession(self._loop, self._runtime, lambda: session.delegate(agent, **options))

    def _entered(self) -> Session:
        if self._session is None:
            raise RuntimeError("enter the session first: with runtime.session(…) as session")
        return self._session


class _Job:
    """Plain code that the thread which made the call is to run."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], done: asyncio.Future[End]
    ) -> None:
        self.done = done
        self._function = function
        self._args = args
        # The caller's thread has a context of its own, in which no call is under way.
        self._acting = acting.current()

    def run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run it and tell the loop how it ended. Raises only what is meant for the program."""
        try:
            with acting.acting(self._acting):
                end = End(self._function(*self._args))
        except BaseException as error:
            if origin.is_programs(error):
                raise
            end = End(None, error)
        # The runtime may have been left while it ran; the call has been told already.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._settle, end)

    def _settle(self, end: End) -> None:
        if not self.done.done():
            self.done.set_result(end)
