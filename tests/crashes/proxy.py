"""A TCP proxy that lets a request through and drops the answer: the network between a runtime and the portal."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit

PIECE = 65536


class Proxy:
    """``with Proxy(target) as proxy:`` listens at ``proxy.url``. ``lose(path, times)`` drops that many answers.

    A request is recognized by its first line; the connection is closed when its answer begins, so that the target has
    carried it out. ``lost`` counts them. Between `cut` and `mend` the target is out of reach.
    """

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname or "", parts.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._left: dict[bytes, int] = {}
        self._ends: set[socket.socket] = set()
        self._is_cut = False
        self.lost = 0
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def lose(self, path: str, times: int) -> None:
        """Drop the next ``times`` answers to requests whose path ends with ``path``."""
        with self._lock:
            self._left[path.encode()] = times

    def cut(self) -> None:
        """Break every connection, wherever its request is, and take no new one."""
        with self._lock:
            self._is_cut = True
            ends = list(self._ends)
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Take connections again."""
        with self._lock:
            self._is_cut = False

    def __enter__(self) -> "Proxy":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                if self._is_cut:
                    client.close()
                    continue
                server = socket.create_connection(self._target)
            except OSError:
                return
            with self._lock:
                self._ends |= {client, server}
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        doomed = threading.Event()
        back = threading.Thread(target=self._answer, args=(client, server, doomed), daemon=True)
        back.start()
        try:
            while data := client.recv(PIECE):
                if self._is_doomed(data):
                    doomed.set()
                server.sendall(data)
        except OSError:
            pass
        _close(client, server)
        with self._lock:
            self._ends -= {client, server}

    def _is_doomed(self, data: bytes) -> bool:
        asked = data.partition(b"\r\n")[0].rpartition(b" ")[0]
        with self._lock:
            path = next((path for path, left in self._left.items() if left and asked.endswith(path)), None)
            if path is None:
                return False
            self._left[path] -= 1
            return True

    def _answer(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        try:
            while data := server.recv(PIECE):
                if doomed.is_set():
                    with self._lock:
                        self.lost += 1
                    break
                client.sendall(data)
        except OSError:
            pass
        _close(client, server)


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
