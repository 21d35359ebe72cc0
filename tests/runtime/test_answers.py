"""An answer is bounded while it is read, also unpacked; the way to the portal is named when it fails."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any

import httpx
import pytest
from hookgate.wire import bodies, proxies
from hookgate.wire.portal import Portal, Unreachable

MIB = 1024 * 1024
VARIABLES = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def read(content: bytes, packing: str | None, limit: int = 1000) -> bytes:
    """What `bodies.read` makes of an answer."""
    headers = {} if packing is None else {"content-encoding": packing}

    async def run() -> bytes:
        transport = httpx.MockTransport(
            lambda _: httpx.Response(200, headers=headers, stream=Chunks(content))
        )
        async with (
            httpx.AsyncClient(transport=transport) as client,
            client.stream("GET", "http://x") as response,
        ):
            return await bodies.read(response, limit)

    return asyncio.run(run())


class Chunks(httpx.AsyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> Any:
        for start in range(0, len(self._content), 100):
            yield self._content[start : start + 100]


def test_what_fits_is_read_packed_or_not() -> None:
    text = b"x" * 999 + b"!"
    for packing, content in (
        (None, text), ("identity", text), ("gzip", gzip.compress(text)), ("GZIP", gzip.compress(text)),
        ("deflate", zlib.compress(text)), ("gzip", gzip.compress(text[:500]) + gzip.compress(text[500:])),
    ):  # fmt: skip
        assert read(content, packing) == text


@pytest.mark.parametrize("packing", [None, "gzip", "deflate"])
def test_what_is_larger_is_not_read_to_its_end(packing: str | None) -> None:
    text = b"x" * 1001
    content = {None: text, "gzip": gzip.compress(text), "deflate": zlib.compress(text)}[packing]
    with pytest.raises(bodies.BodyUnusable, match="larger than 1000 bytes"):
        read(content, packing)


@pytest.mark.parametrize(
    ("packing", "content", "words"),
    [
        ("br", b"x", "packed with 'br'"),
        ("gzip, gzip", b"x", "packed with"),
        ("gzip", b"not gzip", "can't be unpacked"),
        # Without the time: it would be in the test's name, and another in each process.
        ("gzip", gzip.compress(b"x" * 500, mtime=0)[:-9], "end is missing"),
        ("gzip", b"", "end is missing"),
    ],
)
def test_what_can_not_be_unpacked_says_so(packing: str, content: bytes, words: str) -> None:
    with pytest.raises(bodies.BodyUnusable, match=words):
        read(content, packing)


def test_a_bomb_costs_no_memory_and_is_told_as_such() -> None:
    import tracemalloc

    bomb = gzip.compress(b"\0" * (200 * MIB), 9)

    async def run() -> None:
        answer = {"content-encoding": "gzip", "hookgate-contract": "3"}
        transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=answer, stream=Chunks(bomb)))
        portal = Portal("http://127.0.0.1:1", "hg_x", name="w", transport=transport)
        try:
            await portal.call("GET", "agents/procurement/registry")
        finally:
            await portal.close()

    tracemalloc.start()
    try:
        with pytest.raises(Unreachable, match="larger than 16777216 bytes"):
            asyncio.run(run())
        assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    finally:
        tracemalloc.stop()


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


@pytest.mark.parametrize("variable", ["ALL_PROXY", "all_proxy", "HTTPS_PROXY"])
@pytest.mark.parametrize(
    "value", ["socks5://127.0.0.1:1080", "socks4://x", "ftp://x", "http://", "http://x:port", "://"]
)
def test_a_proxy_that_can_not_be_used_is_named_by_its_variable(
    no_proxies: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    no_proxies.setenv(variable, value)
    with pytest.raises(ValueError, match=f"^{variable} names") as caught:
        Portal("https://portal.example", "hg_x", name="w")
    assert "NO_PROXY" in str(caught.value)
    # Whoever needs none is not held up by it.
    no_proxies.setenv("NO_PROXY", "portal.example")
    asyncio.run(Portal("https://portal.example", "hg_x", name="w").close())


def test_a_failure_names_the_proxy_that_it_went_through_without_its_password(
    no_proxies: pytest.MonkeyPatch,
) -> None:
    no_proxies.setenv("HTTP_PROXY", "http://kim:secret@127.0.0.1:9")

    async def run() -> None:
        portal = Portal("http://portal.example", "hg_x", name="w", allow_http=True)
        try:
            await portal.call("GET", "calls")
        finally:
            await portal.close()

    with pytest.raises(Unreachable, match=r"through the proxy http://127.0.0.1:9 \(HTTP_PROXY\)") as caught:
        asyncio.run(run())
    assert "secret" not in str(caught.value)
    assert proxies.find("https", "portal.example", None) is None


def test_https_on_a_plain_port_says_what_it_looks_like(no_proxies: pytest.MonkeyPatch) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(5)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        portal = Portal(f"https://127.0.0.1:{port}", "hg_x", name="w")
        try:
            await portal.call("GET", "calls")
        finally:
            await portal.close()
            server.close()

    with pytest.raises(Unreachable, match="seems to speak plain http"):
        asyncio.run(run())
