"""The portal on a real socket in a thread of the test's process, other processes on its database, and their clients."""

import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import uvicorn
from django.conf import settings
from django.db import connections

from portal.serving import connections as portal_connections
from portal.serving import server

DEADLINE = 10.0  # seconds until a test gives up
END = ("", None)


def until(condition: Callable[[], Any], *, seconds: float = DEADLINE, what: str = "it") -> Any:
    """Poll until ``condition`` holds and return its value. Fails after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.01)
    return value


class Portal:
    """A running server. ``url`` is its origin."""

    def __init__(self) -> None:
        self.socket = server.bind("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.server = server.Server(
            uvicorn.Config(
                "portal.asgi:application",
                http=portal_connections.Protocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=2,
            )
        )
        # How many times a waiting request has asked its view; counted by the fixture.
        self.asked = 0
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)

    def start(self) -> None:
        """Returns when it answers."""
        self.thread.start()
        until(lambda: self.server.started, what="the server's start")

    def stop(self) -> None:
        """Returns when it has ended."""
        self.server.should_exit = True
        self.thread.join(DEADLINE)
        assert not self.thread.is_alive()

    def get(self, path: str, key: str = "", **more: Any) -> httpx.Response:
        """One request."""
        return httpx.get(self.url + path, headers=_headers(key), timeout=DEADLINE, **more)

    @contextmanager
    def waiting(self, path: str, key: str = "") -> Iterator["Pending"]:
        """A request that is under way in a thread, and whose waiter has subscribed and read."""
        before = self.asked
        pending = Pending(lambda: self.get(path, key))
        until(lambda: self.asked > before or pending.done, what="the first look")
        yield pending

    @contextmanager
    def events(self, path: str, key: str = "", **more: Any) -> Iterator["Events"]:
        """An open stream."""
        with httpx.stream(
            "GET", self.url + path, headers=_headers(key), timeout=DEADLINE, **more
        ) as response:
            yield Events(response)


def _headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


class Pending:
    """A request that somebody waits for."""

    def __init__(self, call: Callable[[], httpx.Response]) -> None:
        self.response: httpx.Response | None = None
        self.at = 0.0
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], httpx.Response]) -> None:
        self.response = call()
        self.at = time.monotonic()

    @property
    def done(self) -> bool:
        """Whether the answer is here."""
        return self.response is not None

    def result(self) -> httpx.Response:
        """The answer. Fails when it does not come."""
        self._thread.join(DEADLINE)
        assert self.response is not None, "no answer"
        return self.response


class Events:
    """An open stream, read frame by frame."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def frame(self) -> list[str]:
        """The lines of the next frame; empty when the stream has ended."""
        lines: list[str] = []
        for line in self._lines:
            if line:
                lines.append(line)
            elif lines:
                return lines
        return lines

    def next(self) -> tuple[str, Any]:
        """The next event as ``(name, data)``; comments are skipped; ``END`` at the end."""
        while lines := self.frame():
            fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
            if "event" in fields:
                return fields["event"], json.loads(fields["data"])
        return END


def open_wait(url: str, path: str, key: str) -> socket.socket:
    """A raw request on its own connection: cheap enough for hundreds."""
    address = urlsplit(url)
    connection = socket.create_connection((address.hostname, address.port), timeout=DEADLINE)
    connection.sendall(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n".encode()
    )
    return connection


def read_all(connection: socket.socket) -> bytes:
    """Everything until the other side closes."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


def database_url() -> str:
    """The URL of the present test database, for another process."""
    name = connections["default"].settings_dict["NAME"]
    if connections["default"].vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlunsplit(urlsplit(settings.DATABASE_URL)._replace(path=f"/{name}"))


def environment(**more: str) -> dict[str, str]:
    """The environment of another process on the present database, Redis and secrets."""
    return {
        **os.environ,
        "DATABASE_URL": database_url(),
        "REDIS_URL": settings.REDIS_URL,
        "HOOKGATE_SECRET_KEY": settings.SECRET_KEY,
        "HOOKGATE_ENCRYPTION_KEYS": ",".join(settings.ENCRYPTION_KEYS),
        "PYTHONPATH": "runtime",
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        **more,
    }


def start_elsewhere(code: str) -> "subprocess.Popen[str]":
    """Another process that has Django set up, prints ``ready``, waits for a line on its input and runs ``code``."""
    program = "import django, sys\ndjango.setup()\nprint('ready', flush=True)\nsys.stdin.readline()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", program + textwrap.dedent(code)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=settings.BASE_DIR,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: "subprocess.Popen[str]") -> float:
    """Let it run its code; returns when it has ended, with the time just before it was told."""
    at = time.monotonic()
    process.communicate("\n", timeout=DEADLINE)
    assert process.returncode == 0
    return at


def read_until(connection: socket.socket, wanted: bytes) -> bytes:
    """What comes up to the piece that holds ``wanted``: a head and its body may come in two."""
    seen = b""
    while wanted not in seen:
        part = connection.recv(65536)
        assert part, seen
        seen += part
    return seen
