"""How fast an unchanged registry is told to be unchanged, beside a bare view on the same server."""

import socket
import time
from urllib.parse import urlsplit

import httpx

from benchmarks.measure import Figure, alternate
from benchmarks.serving import BARE
from benchmarks.stage import AGENT, Stage

ROUNDS = 7
SECONDS = 0.5
LAST_CHUNK = b"\r\n0\r\n\r\n"
PATH = f"/api/v1/agents/{AGENT}/registry?surface=chat"


def run(stage: Stage, name: str = "registry_304") -> list[Figure]:
    """Requests per second over one kept connection."""
    held = httpx.get(stage.url + PATH, headers=headers(stage), timeout=30, trust_env=False)
    held.raise_for_status()
    unchanged = Client(stage.url, PATH, {**headers(stage), "If-None-Match": held.headers["ETag"]}, expect=304)
    bare = Client(stage.url, BARE, {}, expect=200)
    ours, baseline = alternate(unchanged.per_second, bare.per_second, rounds=ROUNDS)
    return [
        Figure(name, ours, baseline, "requests/s", "ratio ≥ 0.5", met=ours >= 0.5 * baseline),
    ]


def headers(stage: Stage) -> dict[str, str]:
    """What a runtime sends."""
    return {"Authorization": f"Bearer {stage.key}", "Hookgate-Runtime": "bench-1"}


class Client:
    """One request again and again on a kept connection, with as little work of its own as possible."""

    def __init__(self, url: str, path: str, headers: dict[str, str], *, expect: int) -> None:
        address = urlsplit(url)
        lines = [f"GET {path} HTTP/1.1", f"Host: {address.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._request = ("\r\n".join(lines) + "\r\n\r\n").encode()
        self._status = f"HTTP/1.1 {expect} ".encode()
        self._socket = socket.create_connection((str(address.hostname), int(address.port or 80)), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def per_second(self) -> float:
        """Answers per second over ``SECONDS``. Raises ``RuntimeError`` for any other answer than the expected."""
        count, started = 0, time.perf_counter()
        while (spent := time.perf_counter() - started) < SECONDS:
            self._once()
            count += 1
        return count / spent

    def _once(self) -> None:
        self._socket.sendall(self._request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._receive()
        head, _, body = data.partition(b"\r\n\r\n")
        if not head.startswith(self._status):
            raise RuntimeError(f"unexpected answer: {head.splitlines()[0]!r}")
        # Without middleware nobody counts the bytes: such an answer comes in chunks, and says where it ends.
        while b" 304 " not in head[:16] and not body.endswith(LAST_CHUNK):
            body += self._receive()

    def _receive(self) -> bytes:
        data = self._socket.recv(65536)
        if not data:
            raise RuntimeError("the server has closed the connection")
        return data
