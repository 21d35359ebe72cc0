"""Server-sent events out of bytes, bounded and strict: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hookgate.wire.portal import Unreachable

# The portal's events have some 200 bytes. Whoever sends more is not the portal.
MAX_BYTES: Final = 64 * 1024

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class Parser:
    """Takes chunks as they come, gives (name, data) of each event. ``retry``: the seconds that the server
    asks to wait before connecting again; None until it has."""

    def __init__(self) -> None:
        self.retry: float | None = None
        self._rest = b""
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        """The events that ``chunk`` completes. Raises Unreachable for what is no stream of events."""
        text = self._rest + chunk
        # A carriage return at the end may be half of a line's end.
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text[: len(text) - len(held)])
        self._rest = rest + held
        if len(self._rest) > MAX_BYTES:
            raise Unreachable("the event stream is garbled: a line without an end")
        for line in lines:
            if line:
                self._take(line)
                continue
            if self._data:
                yield self._name or "message", "\n".join(self._data)
            self._name, self._data, self._size = "", [], 0

    def _take(self, line: bytes) -> None:
        self._size += len(line)
        if self._size > MAX_BYTES:
            raise Unreachable("the event stream is garbled: an event without an end")
        try:
            field, _, value = line.decode("utf-8").partition(":")
        except UnicodeDecodeError:
            raise Unreachable("the event stream is garbled: not UTF-8") from None
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        elif field == "retry" and value.isascii() and value.isdigit() and len(value) < 9:
            self.retry = int(value) / 1000
