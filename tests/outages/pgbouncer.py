"""Debian's PgBouncer before a PostgreSQL server, pooling transactions over few connections."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg

from examples.portal_process import free_port

COMMAND = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
INSTALLED = Path(COMMAND).exists()
# Server connections, shared by all clients: fewer than the portal has threads.
CONNECTIONS = 3


class PgBouncer:
    """A pooler for the server at ``url``; ``self.url`` is the same database through it."""

    def __init__(self, url: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hookgate-pgbouncer-"))
        self.port = free_port()
        parts = urlsplit(url)
        host = parse_qs(parts.query)["host"][0]
        self._socket = Path(host)
        self.name = parts.path.removeprefix("/")
        (self.folder / "pgbouncer.ini").write_text(
            "[databases]\n"
            f"{self.name} = host={host} user=postgres dbname={self.name}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            "auth_type = any\npool_mode = transaction\n"
            f"default_pool_size = {CONNECTIONS}\nmax_client_conn = 200\n"
        )
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/{self.name}"
        self.direct = url

    def __enter__(self) -> "PgBouncer":
        arguments = [COMMAND, str(self.folder / "pgbouncer.ini")]
        if os.geteuid() == 0:
            # It refuses to be root, and has to reach the server's socket.
            owner = pwd.getpwuid(self._socket.stat().st_uid)
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
            arguments[1:1] = ["-u", owner.pw_name]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return self
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
                time.sleep(0.05)

    def __exit__(self, *_exc: object) -> None:
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)
