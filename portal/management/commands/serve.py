"""Serve the portal: the web side, and without Redis everything else too, in one process."""

import os
import signal
import sys
from argparse import ArgumentParser
from socket import socket
from typing import Any

import structlog
from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor

from portal import checks, environment
from portal.lib import closed, deadline
from portal.management.base import PortalCommand
from portal.observe import exposition
from portal.serving import embedded, server, supervisor

log = structlog.get_logger(__name__)


class Command(PortalCommand):
    """``serve [--host H] [--port N] [--workers N]``."""

    requires_system_checks = "__all__"
    help = "Serves the portal. Without REDIS_URL, delivery worker and scheduler run in the same process."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The address and the number of processes."""
        parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
        parser.add_argument(
            "--port", type=_port, default=settings.PORT, help="port (default: PORT, else 8000)"
        )
        parser.add_argument(
            "--workers", type=int, default=1, help="web processes; more than one needs REDIS_URL"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until SIGTERM or SIGINT."""
        workers: int = options["workers"]
        if workers < 1 or (workers > 1 and not settings.REDIS_URL):
            raise CommandError(
                "--workers: use 1, or set REDIS_URL: several processes wake each other through Redis alone"
            )
        os.umask(closed.UMASK)
        deadline.serve()
        require_migrations()
        server.raise_open_files()
        try:
            listener = server.bind(options["host"], options["port"])
        except server.PortTaken as error:
            raise CommandError(str(error)) from None
        host, port = listener.getsockname()[:2]
        follow_address(host, port)
        exposition.sweep_folder()
        for warning in checks.exposed(host):
            log.warning("serve.exposed", warning=warning.msg, remedy=warning.hint)
        self._say_where(f"http://{_literal(host)}:{port}")
        if settings.REDIS_URL:
            run_web(listener, workers=workers)
        else:
            run_everything(listener)

    def _say_where(self, address: str) -> None:
        if settings.LOG_FORMAT == "json":
            log.info("serve.started", origin=settings.BASE_URL, address=address)
            return
        self.stdout.write(f"Hookgate serves {settings.BASE_URL} ({address})")
        self.stdout.flush()


def run_web(listener: socket, *, workers: int) -> None:
    """The web side alone, in ``workers`` processes; deliveries and the schedule are Celery's own processes."""
    if workers == 1:
        _leave_in_order()
        server.serve(listener)
    else:
        supervisor.Supervisor(workers, lambda: server.serve(listener)).run()


def run_everything(listener: socket) -> None:
    """The web side, with the delivery worker and the scheduler in threads beside it."""
    _leave_in_order()
    embedded.start()
    try:
        server.serve(listener)
    finally:
        if not embedded.stop():
            # The thread of a task that waits for a slow platform would keep the process; the sweep repeats it.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)


def require_migrations() -> None:
    """Raise ``CommandError`` unless the database can be reached and has every migration."""
    connection = connections["default"]
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        raise CommandError(f"the database can't be reached: {str(error).splitlines()[0]}") from None
    finally:
        connection.close()
    if missing:
        raise CommandError(f"the database lacks {len(missing)} migrations; run: python manage.py migrate")


def follow_address(host: str, port: int) -> None:
    """Without HOOKGATE_BASE_URL, the origin in links and callback URLs is the address we really serve.

    It is only known once the socket is bound (port 0 picks one), and nothing has read it before; worker processes get
    it through the environment.
    """
    if environment.text("HOOKGATE_BASE_URL"):
        return
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else host  # noqa: S104  # compared, not bound
    settings.BASE_URL = f"http://{_literal(shown)}:{port}"
    settings.CSRF_TRUSTED_ORIGINS = [settings.BASE_URL]
    if _literal(shown) not in settings.ALLOWED_HOSTS:
        settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, _literal(shown)]
    os.environ["HOOKGATE_BASE_URL"] = settings.BASE_URL


def _literal(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise ValueError
    return port


def _leave_in_order() -> None:
    """Make the signals that end us raise ``SystemExit``: uvicorn repeats the one it got after it has closed."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
