"""The connection of one process to the portal."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from hookgate.journal.calllog import CallLog
from hookgate.journal.spool import Spool
from hookgate.session.environment import OnEvent
from hookgate.session.process import Process
from hookgate.session.session import Session
from hookgate.wire.pacing import Pacing
from hookgate.wire.portal import Portal

if TYPE_CHECKING:
    import httpx

log = logging.getLogger("hookgate")
T = TypeVar("T")


class Runtime(Process):
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
        pacing = pacing or Pacing()
        portal = Portal(url, key, name=self.name, timeout=timeout, allow_http=allow_http, transport=transport)
        super().__init__(
            portal,
            CallLog(portal, pacing, Spool(spool, portal.url), key),
            pacing=pacing,
            clock=clock,
            python_handlers=tuple(python_handlers),
            max_threads=max_threads,
        )
        self._pid = os.getpid()

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

    async def aclose(self) -> None:
        """Leave every session, send what is left for a bounded time, close the connections."""
        await self.close()

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

    async def announce_tools(self, agent: str, tools: Sequence[Mapping[str, Any]]) -> None:
        """Tell the portal which tools this runtime has: [{name, description, input_schema}]. Shown to the
        admin who writes filters. Raises Unreachable and Refused."""
        await self.portal.call(
            "PUT", f"agents/{quote(agent, safe='')}/tools", body={"tools": [dict(tool) for tool in tools]}
        )


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
