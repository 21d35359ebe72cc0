"""The web server: uvicorn, told how to stop while thousands wait."""

import errno
import resource
import socket

import uvicorn
from django.conf import settings

from portal.serving import connections
from portal.wakeups import wakeups

BACKLOG = 2048
# Seconds that running requests get after those that only wait have been answered.
GRACE_SECONDS = 3


class PortTaken(Exception):
    """The address can't be listened at; the text says why and what to do."""


class Server(uvicorn.Server):
    """A server that answers everybody who waits before it closes."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Long polls answer with what is known and streams end, so that closing takes no time."""
        wakeups.stop()
        await super().shutdown(sockets)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises :class:`PortTaken`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio switches Nagle off: without, an answer on a kept connection takes 40 ms more.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"port {port} of {host} is taken; choose another with --port") from None
        raise PortTaken(f"can't listen at {host} port {port}: {error.strerror or error}") from None
    listener.set_inheritable(True)
    return listener


def serve(listener: socket.socket) -> None:
    """Serve the portal at ``listener`` until a signal. Only the proxies of the settings may forward headers."""
    config = uvicorn.Config(
        "portal.asgi:application",
        http=connections.Protocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        backlog=BACKLOG,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.TRUSTED_PROXIES),
        forwarded_allow_ips=settings.TRUSTED_PROXIES or None,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    Server(config).run(sockets=[listener])


def raise_open_files() -> int:
    """Allow this process as many open files as the system lets it: every waiter is a socket. Returns the number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
