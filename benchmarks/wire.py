"""HTTP/1.1 on a kept connection with next to no work of its own, so that a benchmark measures the server."""

import asyncio
import json
import time
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

# Seconds after a 503.
AGAIN = 0.5


class Wire:
    """One connection. ``async with Wire(url) as wire: status, body = await wire.ask("GET", "/path")``."""

    def __init__(self, url: str, bearer: str = "") -> None:
        self._address = urlsplit(url)
        self._head = f"Host: {self._address.netloc}\r\n"
        if bearer:
            self._head += f"Authorization: Bearer {bearer}\r\n"

    async def __aenter__(self) -> "Wire":
        await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body of the answer."""
        data = b"" if body is None else json.dumps(body).encode()
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        if data:
            lines += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{lines}\r\n".encode() + data)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head[9:12])
        if status == 304:
            return status, b""
        _, announced, rest = head.partition(b"content-length: ")
        if announced:
            return status, await self._reader.readexactly(int(rest.partition(b"\r\n")[0]))
        return status, await self._chunks()

    async def timed(
        self, method: str, path: str, body: Any = None, *, expect: int = 200
    ) -> tuple[float, dict[str, Any]]:
        """Milliseconds and the JSON of the answer. Raises ``RuntimeError`` for another status than ``expect``.

        A 503 (more at once than the pool has connections for) is asked again, as runtimes do, and its time counts.
        """
        if self._reader.at_eof():  # the server has closed what was idle for five seconds
            await self._connect()
        started = time.perf_counter()
        while True:
            try:
                status, answer = await self.ask(method, path, body)
            except ConnectionResetError:  # it closed while this was on its way
                await self._connect()
                continue
            if status != 503:
                break
            await asyncio.sleep(AGAIN)
        spent = (time.perf_counter() - started) * 1000
        if status != expect:
            raise RuntimeError(f"{method} {path}: {status} {answer[:300]!r}")
        return spent, json.loads(answer)

    async def _connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._address.hostname, self._address.port)

    async def _chunks(self) -> bytes:
        found = b""
        while size := int(await self._reader.readline(), 16):
            found += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return found
