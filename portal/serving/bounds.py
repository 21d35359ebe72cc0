"""No request may make the portal read more than it has to: bodies are cut off before anything else sees them."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from portal.api import answers, problems

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_LIMIT = 1024 * 1024  # bytes
LIMITS = {"/api/v1/calls": 8 * 1024 * 1024}
# What is read and thrown away before the refusal, so that a client that is still sending gets to read it.
DRAIN_LIMIT = 32 * 1024 * 1024  # bytes
DRAIN_SECONDS = 5.0


class BodyTooLarge(Exception):
    """The body went over its bound while it was being read."""


class BoundedBodies:
    """ASGI middleware: 413 ``too_large`` for a body over its bound, by its announcement or by count."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        limit = LIMITS.get(scope["path"], BODY_LIMIT)
        reader = _Reader(receive, limit)
        writer = _Writer(send)
        try:
            if _announced(scope) > limit:
                raise BodyTooLarge
            await self._application(scope, reader.receive, writer.send)
        except BodyTooLarge:
            if writer.started:
                raise
            await reader.drain()
            await answers.send(send, problems.respond(problems.too_large(limit)), (b"connection", b"close"))


class _Reader:
    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._read = 0
        self._more = True

    async def receive(self) -> Message:
        message = await self._next()
        if self._read > self._limit:
            raise BodyTooLarge
        return message

    async def drain(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._more and self._read < DRAIN_LIMIT:
                    await self._next()
        except TimeoutError:
            return

    async def _next(self) -> Message:
        message = await self._receive()
        self._read += len(message.get("body", b""))
        self._more = bool(message.get("more_body"))
        return message


class _Writer:
    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def send(self, message: Message) -> None:
        self.started = True
        await self._send(message)


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
