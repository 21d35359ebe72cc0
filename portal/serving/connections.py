"""What a client may take of the server before anybody knows who it is: time, connections, the head of a request.

uvicorn waits for ever for the rest of a head or of a body, and for a client that doesn't read its answer, and bounds
neither a head nor what comes around a body in chunks; this is its protocol on llhttp (`httptools`) with an end to that.
Who waits for an answer of ours (a long poll, a stream) is not slow: we are.
"""

import asyncio
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from portal.observe import metrics

# Set, in a request's scope, by the applications that answer when they have something to say; see
# portal.serving.traffic.
LASTS = "hookgate.lasts"
# Bytes that a client has to send or to read within the time that it is given, if there are so many.
PROGRESS = 10 * 1024
# Bytes of a head, and of what comes around a body in chunks; more are refused.
HEAD = 16 * 1024
# A body may come in chunks of one byte, each with five around it.
_AROUND = 6
# Seconds between two looks at all connections.
LOOK_SECONDS = 0.5

_BODY = '{"type": "about:blank", "title": "%s", "status": %d, "code": "%s", "detail": "%s"}'


def _answer(status: int, title: str, code: str, detail: str, *more: str) -> bytes:
    body = _BODY % (title, status, code, detail)
    head = [
        f"HTTP/1.1 {status} {title}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *more,
    ]
    return ("\r\n".join(head) + f"\r\n\r\n{body}").encode()


FULL = _answer(
    503,
    "Service Unavailable",
    "too_many_connections",
    "This process has as many connections as it may have; try again.",
    "Retry-After: 5",
)
SLOW = _answer(408, "Request Timeout", "too_slow", "The request did not arrive in time; send it again.")


@dataclass
class _Window:
    """``bytes`` since ``since`` (on the loop's clock), in which a client is to get on."""

    since: float
    bytes: int = 0

    def is_lost(self, now: float, seconds: float) -> bool:
        """Whether it has not got on; begins anew where it has."""
        if now - self.since < seconds:
            return False
        if self.bytes < PROGRESS:
            return True
        self.since, self.bytes = now, 0
        return False


class _CountingTransport:
    """A transport that counts what is written to it; everything else is the transport's own."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.written = 0

    def write(self, data: bytes) -> None:
        self.written += len(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Protocol(HttpToolsProtocol):
    """uvicorn's, which lets slow clients go and takes so many connections at a time."""

    _sweeps: MutableMapping[asyncio.AbstractEventLoop, asyncio.TimerHandle] = WeakKeyDictionary()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or say that there are too many."""
        self._out = _CountingTransport(transport)
        self._head_since: float | None = self.loop.time()
        self._heard = False
        self._body: _Window | None = None
        self._reading: _Window | None = None
        self._sent = 0
        # Whether the next bytes are of a body; what has come of the present head and body, and of the body itself.
        self._in_body = False
        self._received = self._of_body = 0
        super().connection_made(self._out)  # type: ignore[arg-type]
        self._watch()
        if self._is_full():
            metrics.count(metrics.CONNECTIONS_ENDED, reason="too_many")
            self._out.write(FULL)
            self._out.close()

    def data_received(self, data: bytes) -> None:
        """Hand the bytes on, a piece at a time, as long as they come to something."""
        if self.transport.is_closing():
            return
        self._heard = True
        if self._body is not None:
            self._body.bytes += len(data)
        if self._head_since is None and self._awaits_head():
            self._head_since = self.loop.time()
        while data and not self.transport.is_closing():
            room = HEAD + _AROUND * self._of_body - self._received
            if room <= 0:
                self.send_400_response("Invalid HTTP request received.")
                return
            piece, data = data[:room], data[room:]
            self._received += len(piece)
            super().data_received(piece)
        if not self._awaits_head():
            self._head_since = None

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_body = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """What comes after a body in chunks is no header, and nothing here reads it (RFC 9110, 6.5.1)."""
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A body begins, if only an empty one. A head that names no host, or several, is refused (RFC 9112, 3.2)."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() != "1.0"):
            raise ValueError("a request names one host")
        self._in_body, self._received, self._of_body = True, 0, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._of_body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The next bytes are of a head."""
        self._in_body, self._received, self._of_body = False, 0, 0
        super().on_message_complete()

    def let_go_if_slow(self, now: float) -> None:
        """End the connection of a client that doesn't get on."""
        seconds = settings.SLOW_CLIENT_SECONDS
        if self._reads_too_slowly(now, seconds):
            metrics.count(metrics.CONNECTIONS_ENDED, reason="slow_reader")
            self._out.abort()
        elif self.transport.is_closing():
            return
        elif self._head_since is not None and now - self._head_since >= seconds:
            self._let_go("slow_head")
        elif self._sends_too_slowly(now, seconds):
            self._let_go("slow_body")

    def _let_go(self, reason: str) -> None:
        metrics.count(metrics.CONNECTIONS_ENDED, reason=reason)
        if self._heard and (
            self.cycle is None or self.cycle.response_complete or not self.cycle.response_started
        ):
            self._out.write(SLOW)
        self._out.close()

    def _awaits_head(self) -> bool:
        """Whether the client is to send a head, or the rest of one, and waits for no answer of ours."""
        return not self._in_body and (self.cycle is None or self.cycle.response_complete)

    def _sends_too_slowly(self, now: float, seconds: float) -> bool:
        # While reading is paused it is the application that doesn't take what is there.
        if not self._in_body or self.flow.read_paused:
            self._body = None
            return False
        if self._body is None:
            self._body = _Window(now)
        return self._body.is_lost(now, seconds)

    def _reads_too_slowly(self, now: float, seconds: float) -> bool:
        left: int = self._out.get_write_buffer_size()
        if not left:
            self._reading = None
            return False
        sent = self._out.written - left
        if self._reading is None:
            self._reading = _Window(now)
        else:
            self._reading.bytes += sent - self._sent
        self._sent = sent
        return self._reading.is_lost(now, seconds)

    def _is_full(self) -> bool:
        most = settings.CONNECTIONS
        if len(self.connections) <= most:
            return False
        return sum(not other.lasts() for other in self.connections if isinstance(other, Protocol)) > most

    def lasts(self) -> bool:
        """Whether the client waits for us: those are known, and bounded elsewhere."""
        return bool(self.scope and self.scope.get(LASTS) and not self.cycle.response_complete)

    def _watch(self) -> None:
        """Look at all connections of the loop now and then, for as long as there are any."""
        if self.loop not in self._sweeps:
            self._sweeps[self.loop] = self.loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        now = self.loop.time()
        for connection in list(self.connections):
            if isinstance(connection, Protocol):
                connection.let_go_if_slow(now)
        del self._sweeps[self.loop]
        if self.connections:
            self._watch()
