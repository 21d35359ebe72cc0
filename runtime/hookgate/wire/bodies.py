"""Read the body of an answer, never more of it than a bound, packed or not."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx

# What is asked for, and all that is unpacked: zlib can be told where to stop.
ACCEPTED: Final = "gzip"
_STEP: Final = 64 * 1024
_NOT_PACKED: Final = ("", "identity")
# zlib's word for "a gzip or a zlib header".
_WINDOW: Final = 47


class BodyUnusable(Exception):
    """The body is larger than its bound, or packed in a way that can't be undone. The text says which."""


async def read(response: httpx.Response, limit: int) -> bytes:
    """The body, unpacked: at most ``limit`` bytes. Raises BodyUnusable, and what reading from a socket raises."""
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing in _NOT_PACKED:
        unpack = None
    elif packing in ("gzip", "x-gzip", "deflate"):
        unpack = _Unpacker(limit)
    else:
        raise BodyUnusable(f"the answer is packed with {packing[:40]!r}, which this runtime did not ask for")
    content = bytearray()
    async for chunk in response.aiter_raw(_STEP):
        content += chunk if unpack is None else unpack.feed(chunk)
        if len(content) > limit:
            raise too_large(limit)
    if unpack is not None:
        unpack.finish()
    return bytes(content)


def too_large(limit: int) -> BodyUnusable:
    """The answer has more than ``limit`` bytes."""
    return BodyUnusable(f"the answer is larger than {limit} bytes")


class _Unpacker:
    """Unpacks a body bit by bit. What a few packed bytes unpack to is held to the bound before it is in memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._stream = zlib.decompressobj(_WINDOW)

    def feed(self, chunk: bytes) -> bytes:
        """What ``chunk`` adds. Raises BodyUnusable."""
        content = b""
        try:
            while chunk:
                if self._stream.eof:
                    # Members may follow each other: https://www.rfc-editor.org/rfc/rfc1952#section-2.2
                    self._stream = zlib.decompressobj(_WINDOW)
                part = self._stream.decompress(chunk, self._left + 1)
                if len(part) > self._left:
                    raise too_large(self._limit)
                self._left -= len(part)
                content += part
                chunk = self._stream.unused_data or self._stream.unconsumed_tail
        except zlib.error as error:
            raise BodyUnusable(f"the answer can't be unpacked: {error}") from None
        return content

    def finish(self) -> None:
        """The body is over. Raises BodyUnusable where a part of it is missing."""
        if not self._stream.eof:
            raise BodyUnusable("the answer can't be unpacked: its end is missing")
