"""A proxy between a runtime and the real portal that breaks chosen requests in each of the ways in which networks do.

It runs on the runtime's loop and reads whole requests, so that it knows what each one is for.
"""

import asyncio
import json
import re
import socket
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

# Before the portal has heard of the request.
BEFORE = ("refused", "reset", "500", "503", "slow", "garbage", "noise", "html", "redirect")
# After the portal has done it.
AFTER = ("lost", "truncated", "late-502")
FAULTS = (*BEFORE, *AFTER)
PURPOSES = {
    "registry": r"GET /agents/[^/]+/registry",
    "events": r"GET /agents/[^/]+/events",
    "tools": r"PUT /agents/[^/]+/tools",
    "create": r"POST /confirmations",
    "wait": r"GET /confirmations/[^/]+",
    "consume": r"POST /confirmations/[^/]+/consume",
    "outcome": r"POST /confirmations/[^/]+/outcome",
    "cancel": r"POST /confirmations/[^/]+/cancel",
    "calls": r"POST /calls",
    "limits": r"POST /limits/acquire",
    "notices": r"POST /channels/[^/]+/messages",
}
# Seconds: for how long nobody listens; and the longest silence, beyond every time-out of the tests.
REFUSING = 0.05
SILENCE = 10.0
PIECE = 65536
_ANSWERS = {
    "500": ("500 Oops", "application/problem+json", b'{"title":"oops","status":500}'),
    "503": ("503 Busy", "application/problem+json", b'{"title":"busy","status":503}'),
    "late-502": ("502 Bad Gateway", "text/html", b"<h1>bad gateway</h1>"),
    "garbage": ("200 OK", "application/json", b'{"id": "\xff\xfe", "status": approved}'),
    "html": ("200 OK", "text/html", b"<html><form>Sign in to the guest network</form></html>"),
    "redirect": ("302 Found", "text/html", b""),
}

# What a request is for and which one it is, and the fault that it meets; None for none.
Plan = Callable[[str, str], str | None]
# May change what the portal answers: what it was asked for, and the body.
Change = Callable[[str, dict[str, Any]], None]


def times(purpose: str, fault: str, count: int, *, after: int = 0) -> Plan:
    """The fault meets requests of one purpose, each the first ``count`` times; the first ``after`` of all none."""
    met: Counter[str] = Counter()
    seen = 0

    def plan(asked: str, which: str) -> str | None:
        nonlocal seen
        if asked != purpose:
            return None
        seen += 1
        if seen <= after or met[which] >= count:
            return None
        met[which] += 1
        return fault

    return plan


class Breaker:
    """``async with Breaker(target) as breaker:`` listens at ``breaker.url``; ``plan`` says what breaks.

    ``change`` may rewrite an answer, and ``retell`` a request's head, before it goes on. ``met`` counts the faults by
    purpose and kind; ``asked`` has the purpose and body of each request.
    """

    def __init__(self, target: str, plan: Plan | None = None, change: Change | None = None) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname or "", parts.port or 80)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusing: asyncio.Task[None] | None = None
        self.plan = plan or (lambda asked, which: None)
        self.change = change
        self.retell: Callable[[bytes], bytes] = lambda head: head
        self.met: Counter[tuple[str, str]] = Counter()
        self.asked: list[tuple[str, Any]] = []
        self.url = ""

    async def __aenter__(self) -> "Breaker":
        await self._listen()
        self.url = f"http://127.0.0.1:{self._port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [*self._tasks, *([self._refusing] if self._refusing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            body = await reader.readexactly(int(length[1])) if length else b""
            await self._answer(head, body, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, head: bytes, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        method, path = head.split(b"\r\n", 1)[0].decode().split(" ")[:2]
        path = path.partition("?")[0].removeprefix("/api/v1")
        purpose = next(
            (name for name, form in PURPOSES.items() if re.fullmatch(form, f"{method} {path}")), path
        )
        said = json.loads(body) if body else {}
        self.asked.append((purpose, said))
        fault = self.plan(purpose, f"{path} {said.get('tool_call_id') or said.get('call') or ''}")
        head = self.retell(head)
        if fault is None:
            await self._pass_on(purpose, head + body, reader, writer)
            return
        self.met[purpose, fault] += 1
        if fault in AFTER:
            answer = await self._ask(purpose, head + body)
            if fault == "truncated":
                writer.write(answer[: max(answer.find(b"\r\n\r\n") + 5, len(answer) * 2 // 3)])
                await writer.drain()
        await self._break(fault, purpose, reader, writer)

    async def _break(
        self, fault: str, purpose: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if fault == "slow":
            # Returns when the runtime has had enough.
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1), SILENCE)
        elif fault == "noise":
            writer.write(bytes(range(256)))
            await writer.drain()
        elif fault in _ANSWERS:
            status, kind, body = _ANSWERS[fault]
            if purpose == "events" and fault == "garbage":
                kind, body = "text/event-stream", b"event: state\ndata: {halted\n\n"
            more = {"503": "Retry-After: 1\r\n", "redirect": f"Location: {self.url}/api/v1/schema/\r\n"}
            lines = f"{more.get(fault, '')}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
            writer.write(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body)
            await writer.drain()
        elif fault != "truncated":
            _reset(writer)
            if fault == "refused" and (self._refusing is None or self._refusing.done()):
                self._refusing = asyncio.create_task(self._refuse())

    async def calm(self) -> None:
        """Break nothing any more. Returns when it listens again."""
        self.plan = lambda asked, which: None
        if self._refusing is not None:
            await self._refusing

    async def _refuse(self) -> None:
        assert self._server is not None
        self._server.close()
        await asyncio.sleep(REFUSING)
        await self._listen()

    async def _ask(self, purpose: str, request: bytes) -> bytes:
        """The portal's whole answer; of a stream its beginning."""
        upstream, sender = await asyncio.open_connection(*self._target)
        try:
            sender.write(_once(request))
            return await (upstream.read(PIECE) if purpose == "events" else upstream.read())
        finally:
            sender.close()

    async def _pass_on(
        self, purpose: str, request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self.change is not None and purpose != "events":
            writer.write(self._changed(purpose, await self._ask(purpose, request)))
            await writer.drain()
            return
        upstream, sender = await asyncio.open_connection(*self._target)
        gone = asyncio.ensure_future(reader.read(1))
        # A runtime that has gone away must be gone for the portal too.
        gone.add_done_callback(lambda _: sender.close())
        try:
            sender.write(_once(request))
            while data := await upstream.read(PIECE):
                writer.write(data)
                await writer.drain()
        finally:
            gone.cancel()
            sender.close()

    def _changed(self, purpose: str, answer: bytes) -> bytes:
        head, _, body = answer.partition(b"\r\n\r\n")
        if self.change is None or b"application/json" not in head.lower() or b"chunked" in head.lower():
            return answer
        said = json.loads(body)
        self.change(purpose, said)
        body = json.dumps(said).encode()
        head = re.sub(rb"(?i)\r\ncontent-length: *\d+", b"\r\nContent-Length: %d" % len(body), head)
        return head + b"\r\n\r\n" + body


def _once(request: bytes) -> bytes:
    """The request on a connection that the portal closes behind its answer."""
    head, _, body = request.partition(b"\r\n\r\n")
    head = re.sub(rb"(?i)\r\n(connection|accept-encoding): *[^\r]*", b"", head)
    return head + b"\r\nConnection: close\r\nAccept-Encoding: identity\r\n\r\n" + body


def _reset(writer: asyncio.StreamWriter) -> None:
    end: socket.socket | None = writer.get_extra_info("socket")
    if end is not None:
        with suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
