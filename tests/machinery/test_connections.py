"""Slow clients are let go, connections are counted, and whoever waits for us is left alone. On real sockets."""

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from hooks_app import keys
from portal import audit
from tests.machinery.live import Portal, open_wait, read_all, read_until, until

SECONDS = 1
SLACK = 3.0
HEAD = (
    b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"
)


@pytest.fixture(autouse=True)
def _impatient(settings: Any) -> None:
    settings.SLOW_CLIENT_SECONDS = SECONDS


def connect(portal: Portal) -> socket.socket:
    address = urlsplit(portal.url)
    return socket.create_connection((address.hostname, address.port), timeout=10)


def ended(connection: socket.socket) -> tuple[bytes, float]:
    """What came until the other side closed, and how long that took."""
    began = time.monotonic()
    try:
        return read_all(connection), time.monotonic() - began
    except ConnectionResetError:
        return b"", time.monotonic() - began


def drip(connection: socket.socket, data: bytes) -> None:
    """A byte every fifth of the time that a client has, until the server has enough of it."""
    for byte in data:
        try:
            connection.sendall(bytes([byte]))
        except OSError:
            return
        time.sleep(SECONDS / 5)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"GET /healthz HT", b"HTTP/1.1 408 "),
        (HEAD, b"HTTP/1.1 408 "),
        (HEAD + b"\r\n{}1", b"HTTP/1.1 408 "),
    ],
    ids=["nothing", "half a line", "half a head", "three bytes of a body"],
)
def test_a_client_that_stops_is_let_go(portal: Portal, world: Any, sent: bytes, answer: bytes) -> None:
    with connect(portal) as connection:
        connection.sendall(sent)
        text, seconds = ended(connection)
    assert text.startswith(answer)
    assert bool(text) == bool(answer)
    assert SECONDS * 0.8 < seconds < SECONDS + SLACK


@pytest.mark.parametrize("data", [b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 50, HEAD + b"\r\n" + b"x" * 50])
def test_a_client_that_drips_is_let_go(portal: Portal, world: Any, data: bytes) -> None:
    with connect(portal) as connection:
        connection.sendall(data[:-40])
        began = time.monotonic()
        drip(connection, data[-40:])
        assert time.monotonic() - began < SECONDS + SLACK


def test_half_of_a_second_head(portal: Portal, world: Any) -> None:
    with connect(portal) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert read_until(connection, b'{"status": "alive"}').startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET /he")
        text, seconds = ended(connection)
    assert text.startswith(b"HTTP/1.1 408 ")
    assert seconds < SECONDS + SLACK


def test_a_body_after_its_refusal_may_not_drip_either(portal: Portal, world: Any) -> None:
    head = b"POST /channels/none/none/callback HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9000000\r\n\r\n"
    with connect(portal) as connection:
        connection.sendall(head)
        _, seconds = ended(connection)
    assert seconds < SECONDS + SLACK + 5  # the refusal itself waits for a body to be thrown away


def test_a_slow_reader_is_let_go(portal: Portal, world: Any) -> None:
    with connect(portal) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = b"GET /static/admin/css/base.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        many = request * 400  # as much as the kernel doesn't take off the server's hands
        connection.settimeout(0.5)
        with suppress(TimeoutError):
            connection.sendall(many)
        until(lambda: not portal.server.server_state.connections, seconds=SECONDS + 10, what="the end")


def test_a_client_that_gets_on_is_not_slow(portal: Portal, world: Any) -> None:
    """64 KiB within three times the time that a slow client has."""
    body = b" " * 65536
    with connect(portal) as connection:
        connection.sendall(HEAD.replace(b"1000", b"65536") + b"\r\n")
        for start in range(0, len(body), 8192):
            connection.sendall(body[start : start + 8192])
            time.sleep(SECONDS * 3 / 8)
        connection.settimeout(10)
        assert connection.recv(100).startswith(b"HTTP/1.1 403 ")  # no CSRF token: the page has judged it


def test_who_waits_for_us_is_left_alone(portal: Portal, world: Any, pending: Callable[[], Any]) -> None:
    with (
        open_wait(portal.url, f"/api/v1/confirmations/{pending().pk}?wait=3", world.key) as wait,
        open_wait(portal.url, "/api/v1/agents/procurement/events", world.key) as stream,
    ):
        text, seconds = ended(wait)
        assert text.startswith(b"HTTP/1.1 200 ")
        assert seconds > 2.5
        stream.settimeout(5)
        read_until(stream, b"event: state")
        stream.settimeout(0.2)
        with pytest.raises(TimeoutError):
            stream.recv(1)  # it is quiet, and open


def test_connections_are_counted_without_those_that_wait(
    portal: Portal, world: Any, pending: Callable[[], Any], settings: Any
) -> None:
    settings.SLOW_CLIENT_SECONDS = 3
    row = pending()
    with ExitStack() as stack:
        waits = [
            stack.enter_context(
                closing(open_wait(portal.url, f"/api/v1/confirmations/{row.pk}?wait=30", world.key))
            )
            for _ in range(12)
        ]
        until(lambda: "12 waiting" in httpx.get(f"{portal.url}/readyz").text, what="the waits")
        settings.CONNECTIONS = 10
        idle = [stack.enter_context(closing(connect(portal))) for _ in range(10)]
        until(lambda: len(portal.server.server_state.connections) == 22, what="the connections")
        with connect(portal) as one_more:
            text, seconds = ended(one_more)
        assert text.startswith(b"HTTP/1.1 503 ")
        assert b"too_many_connections" in text
        assert b"Retry-After" in text
        assert seconds < 1
        assert len(idle) == 10
        until(lambda: len(portal.server.server_state.connections) == 12, what="room again")
        assert httpx.get(f"{portal.url}/healthz").status_code == 200
        assert all(not _over(wait) for wait in waits)


def _over(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        connection.recv(1)
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("size", [40_000, 200_000])
def test_a_head_is_bounded_however_it_arrives(portal: Portal, world: Any, size: int) -> None:
    lines = b"".join(b"X-%d: y\r\n" % number for number in range(size // 10))
    with connect(portal) as connection:
        try:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + lines + b"\r\n")
            text, _ = ended(connection)
        except OSError:
            return
    assert not text.startswith(b"HTTP/1.1 200")


CHUNKED = b"POST /api/v1/limits/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    "around",
    [b"2;x=" + b"y" * 200_000, b"2\r\n{}\r\n0\r\nX: " + b"y" * 200_000],
    ids=["extension", "trailer"],
)
def test_what_comes_around_a_body_in_chunks_is_bounded(portal: Portal, world: Any, around: bytes) -> None:
    with connect(portal) as connection:
        try:
            connection.sendall(CHUNKED + b"\r\n" + around)
            text, _ = ended(connection)
        except OSError:
            return
    assert text == b"" or text.startswith(b"HTTP/1.1 400 ")  # a reset may overtake the answer


def test_a_body_in_chunks_of_one_byte_arrives(portal: Portal, world: Any) -> None:
    body = b'{"agent": "' + b"a" * 40_000 + b'"}'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    with connect(portal) as connection:
        connection.sendall(CHUNKED + b"Connection: close\r\n\r\n" + chunks + b"0\r\n\r\n")
        text, _ = ended(connection)
    assert text.startswith(b"HTTP/1.1 401 ")


def test_what_follows_a_body_is_no_header(portal: Portal, world: Any) -> None:
    """A key in a trailer says who calls to nobody."""
    key = keys.issue(organization=world.acme, agent=world.agent, scopes=["limits"], actor=audit.SHELL)[1]
    head = CHUNKED + b"Content-Type: application/json\r\nConnection: close\r\n"
    bearer = b"Authorization: Bearer " + key.encode() + b"\r\n"
    statuses = []
    for headers, trailer in ((bearer, b""), (b"", bearer)):
        with connect(portal) as connection:
            connection.sendall(head + headers + b"\r\n2\r\n{}\r\n0\r\n" + trailer + b"\r\n")
            statuses.append(ended(connection)[0].split()[1])
    assert statuses == [b"400", b"401"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"200"),
        (b"GET /healthz HTTP/1.0\r\n", b"200"),
        (b"GET /healthz HTTP/1.1\r\n", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n", b"400"),
        (b"GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\r\n b\r\n", b"400"),
        (b"POST /login/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n", b"400"),
        (b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"404"),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n", b"400"),
    ],
)
def test_a_head_is_read_as_the_standard_says(portal: Portal, world: Any, head: bytes, status: bytes) -> None:
    """RFC 9112: one host, no folded lines, one length."""
    with connect(portal) as connection:
        connection.sendall(head + b"Connection: close\r\n\r\n")
        text, _ = ended(connection)
    assert text.split()[1] == status


def test_who_offers_another_protocol_is_answered_in_this_one_and_goes_on(portal: Portal, world: Any) -> None:
    """Java's and curl's clients offer HTTP/2 with their first request."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    get = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    with connect(portal) as connection:
        for more in (offer, b"", b"Connection: close\r\n"):
            connection.sendall(get + more + b"\r\n")
            answer = read_until(connection, b"}")
            assert answer.startswith(b"HTTP/1.1 200 "), answer
