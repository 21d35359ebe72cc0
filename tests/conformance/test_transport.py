"""Bodies that are too large, announced falsely or cut off, and requests that are no HTTP: refused by a running portal.

Afterwards it still answers, and its log tells of no error of its own.
"""

import json
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.conformance.conftest import Stage

MIB = 1024 * 1024
PATIENCE = 20.0


@pytest.fixture(autouse=True)
def _portal_stays_well(stage: Stage) -> Iterator[None]:
    yield
    assert stage.portal.answers()
    log = stage.portal.log.read_text(errors="replace")
    assert "Traceback" not in log, log[-5000:]
    assert "api.failed" not in log


def chunks(size: int) -> Iterator[bytes]:
    for _ in range(size // 65_536):
        yield b" " * 65_536


def refused(answer: httpx.Response) -> None:
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"
    assert answer.json()["code"] == "too_large"


@pytest.mark.parametrize(("path", "size"), [("/confirmations", 2), ("/limits/acquire", 10), ("/calls", 10)])
@pytest.mark.parametrize("announced", [True, False])
def test_a_body_over_its_limit(stage: Stage, path: str, size: int, announced: bool) -> None:
    body = b" " * size * MIB if announced else chunks(size * MIB)
    with stage.client("organization") as client:
        refused(client.post(path, content=body, headers={"Content-Type": "application/json"}))


def test_a_body_over_the_limit_of_a_call_that_takes_none(stage: Stage) -> None:
    with stage.client("organization") as client:
        refused(client.request("GET", "/confirmations", content=b" " * 2 * MIB))
    refused(httpx.post(f"{stage.portal.url}/healthz", content=b" " * 2 * MIB, trust_env=False))


def raw(stage: Stage, request: bytes, *, close: bool = False) -> bytes:
    """What the portal answers to these bytes until it closes, or until nothing comes any more."""
    answer = b""
    with socket.create_connection(("127.0.0.1", stage.portal.port), timeout=PATIENCE) as connection:
        try:
            connection.sendall(request)
            if close:
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65_536):
                answer += part
        except TimeoutError:
            raise
        except OSError:
            # A portal that closes before it has read everything resets the connection, sooner or later.
            return answer
    return answer


def head(stage: Stage, *lines: str) -> bytes:
    fixed = [
        "POST /api/v1/confirmations HTTP/1.1",
        f"Host: 127.0.0.1:{stage.portal.port}",
        f"Authorization: Bearer {stage.credentials['organization']}",
        "Content-Type: application/json",
    ]
    return "\r\n".join([*fixed, *lines, "", ""]).encode()


def test_a_body_of_a_terabyte_is_refused_without_being_read(stage: Stage) -> None:
    started = time.monotonic()
    answer = raw(stage, head(stage, f"Content-Length: {10**12}") + b"{")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "too_large"
    assert time.monotonic() - started < PATIENCE


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: x",),
        ("Content-Length: -1",),
        ("Content-Length: 1", "Content-Length: 2"),
        ("Transfer-Encoding: gzip",),
        ("X: " + "x" * 200_000,),
    ],
    ids=["no number", "negative", "two lengths", "unknown coding", "long header"],
)
def test_what_is_no_http(stage: Stage, lines: tuple[str, ...]) -> None:
    answer = raw(stage, head(stage, *lines, "Connection: close") + b"{}", close=True)
    assert not answer or answer.startswith(b"HTTP/1.1 4"), answer[:300]


def test_bytes_that_are_no_request(stage: Stage) -> None:
    for bad in (b"\x16\x03\x01\x02\x00\x01\x00\x01", b"GET\r\n\r\n", b"\0" * 1000 + b"\r\n\r\n"):
        answer = raw(stage, bad, close=True)
        assert not answer or answer.startswith(b"HTTP/1.1 400 "), answer[:300]


def test_a_body_that_is_cut_off_changes_nothing(stage: Stage) -> None:
    with stage.client("organization") as client:
        before = client.get("/confirmations").json()
        raw(stage, head(stage, "Content-Length: 100") + b'{"agent": "procurement"', close=True)
        assert client.get("/confirmations").json() == before


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_what_operators_ask_takes_bad_input_too(stage: Stage, path: str) -> None:
    with httpx.Client(base_url=stage.portal.url, trust_env=False, timeout=30) as client:
        good = client.get(path)
        assert good.status_code == 200
        for query in ("?x=%00", "?x=%ff", "?" + "x" * 5000, "?x[]=1&x[]=2"):
            assert client.get(path + query).status_code == 200
        for value in ("Bearer", "Bearer hg_x", "Basic eDp4", "x" * 5000):
            assert client.get(path, headers={"Authorization": value}).status_code in (200, 401)
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            refusal = client.request(method, path)
            assert refusal.status_code == 405, method
            assert "GET" in refusal.headers["Allow"]
