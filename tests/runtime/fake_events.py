"""The event stream of the runtime tests' portal: ``GET /agents/{agent}/events`` of the contract, and spoilt ones."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

JSON = dict[str, Any]


class EventStreams:
    """Open streams by agent. ``kind`` is what the next ones are like: ``ok``; ``none`` (404); a status; ``silent``
    (headers and no more); ``html``; ``garbage``, ``long``, ``latin`` or ``cut`` after the greeting."""

    def __init__(self) -> None:
        self.kind = "none"
        self.opened = 0
        self.open: dict[str, list[asyncio.StreamWriter]] = {}

    def send(self, agent: str, name: str, data: Any) -> None:
        """One event to everybody who listens to the agent."""
        self.write(agent, f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())

    def write(self, agent: str, payload: bytes) -> None:
        """Raw bytes."""
        for writer in self.open.get(agent, []):
            writer.write(_chunk(payload))

    def break_off(self) -> None:
        """Cut every stream."""
        for writers in self.open.values():
            for writer in writers:
                writer.transport.abort()

    async def serve(
        self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader, agent: str, now: JSON
    ) -> None:
        """One stream, until the client is gone."""
        self.opened += 1
        kind = "text/html" if self.kind == "html" else "text/event-stream; charset=utf-8"
        writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nhookgate-contract: 3\r\n"
            "transfer-encoding: chunked\r\n\r\n".encode()
        )
        held = self.open.setdefault(agent, [])
        held.append(writer)
        try:
            if self.kind != "silent":
                self._greet(writer, now)
            await reader.read()
        finally:
            held.remove(writer)

    def _greet(self, writer: asyncio.StreamWriter, now: JSON) -> None:
        registry = {"revision": now["revision"], "digest": now["digest"]}
        greeting = f": hello\n\nevent: registry\ndata: {json.dumps(registry)}\n\nevent: news\ndata: ?\n\n"
        greeting += f"event: state\ndata: {json.dumps(now['state'])}\n\n"
        # In pieces, as a network would.
        for piece in re.findall(r".{1,7}", greeting, re.DOTALL):
            writer.write(_chunk(piece.encode()))
        spoilt = {
            "garbage": b"event: state\ndata: nothing\n\n",
            "long": b"data: " + b"x" * 100_000,
            "latin": b"data: \xe9\n\n",
        }
        if self.kind in spoilt:
            writer.write(_chunk(spoilt[self.kind]))
        elif self.kind == "cut":
            writer.write(b"ff\r\nevent: sta")
            writer.close()


def _chunk(payload: bytes) -> bytes:
    return f"{len(payload):x}\r\n".encode() + payload + b"\r\n"
