"""The reader of server-sent events."""

from __future__ import annotations

import pytest
from hookgate.wire import sse
from hookgate.wire.portal import Unreachable


def test_the_parser_takes_any_pieces_and_line_ends() -> None:
    text = ":hi\r\nevent: a\r\ndata: 1\r\ndata: 2\r\n\r\nretry: 1500\nid: 7\n\nevent: none\n\ndata:3\r\rdata: \xe9\n\n"
    wanted = [("a", "1\n2"), ("message", "3"), ("message", "\xe9")]
    for size in (1, 2, 3, 7, 1000):
        parser, found = sse.Parser(), []
        payload = text.encode()
        for start in range(0, len(payload), size):
            found += list(parser.feed(payload[start : start + size]))
        assert (found, parser.retry) == (wanted, 1.5)


@pytest.mark.parametrize("spoilt", [b"x" * 70_000, b"data: 1234567\n" * 6000, b"data: \xff\n\n"])
def test_the_parser_refuses_what_has_no_end(spoilt: bytes) -> None:
    with pytest.raises(Unreachable, match="garbled"):
        list(sse.Parser().feed(spoilt))
