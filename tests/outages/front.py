"""What stands before the sandbox and lets it look refusing, broken or silent, without the sandbox knowing."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit

PIECE = 65536


class Front:
    """``with Front(target) as front:`` listens at ``front.url`` with the target's path; ``mode`` says what it does.

    ``up`` passes everything on, ``refusing`` doesn't listen, ``broken`` answers 503 (with ``retry_after`` if that is
    set), ``silent`` takes connections and answers nothing. ``asked`` counts the connections outside of ``up``.
    """

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname or "", parts.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self.host = f"127.0.0.1:{self._port}"
        self.url = f"http://{self.host}{parts.path}"
        self.mode = "up"
        self.retry_after: int | None = None
        self.asked = 0

    def turn(self, mode: str) -> None:
        """Change the mode; connections from before are cut."""
        listened = self.mode != "refusing"
        self.mode = mode
        for end in self._open:
            _close(end)
        self._open.clear()
        if mode == "refusing" and listened:
            _close(self._listener)
        if mode != "refusing" and not listened:
            self._listener = socket.create_server(("127.0.0.1", self._port))
            self._start()

    def __enter__(self) -> "Front":
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.turn("refusing")

    def _start(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self._open.append(client)
            if self.mode == "up":
                server = socket.create_connection(self._target)
                self._open.append(server)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=_pass_on, args=pair, daemon=True).start()
                continue
            self.asked += 1
            if self.mode == "broken":
                with suppress(OSError):
                    client.recv(PIECE)
                    wish = f"Retry-After: {self.retry_after}\r\n" if self.retry_after is not None else ""
                    head = f"HTTP/1.1 503 Unavailable\r\n{wish}Content-Length: 4\r\nConnection: close\r\n\r\n"
                    client.sendall(f"{head}down".encode())
                _close(client)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(PIECE):
            target.sendall(data)
    _close(source)
    _close(target)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
