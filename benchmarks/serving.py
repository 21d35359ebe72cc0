"""The portal's server with a bare view beside it: same process, same server, same loop.

``python -m benchmarks.serving PORT``. ``/bare`` is answered by a Django handler without any middleware, from a view
that touches no database; every other path is the portal's own.
"""

import sys
from typing import Any

from django.core.handlers.asgi import ASGIHandler
from django.test.utils import override_settings

from portal import asgi, server

BARE = "/bare"
# The view behind it: what the portal itself answers without looking at anything.
VIEW = "/healthz"


class Beside:
    """The portal's application, and the bare handler in front of it."""

    def __init__(self, portal: Any) -> None:
        self._portal = portal
        with override_settings(MIDDLEWARE=[]):
            self._bare: Any = ASGIHandler()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["path"] == BARE:
            await self._bare({**scope, "path": VIEW, "raw_path": VIEW.encode()}, receive, send)
        else:
            await self._portal(scope, receive, send)


def main() -> None:
    """Serve until a signal, with the very options of `manage.py serve`."""
    server.raise_open_files()
    listener = server.bind("127.0.0.1", int(sys.argv[1]))
    asgi.application = Beside(asgi.application)  # type: ignore[assignment]
    server.serve(listener)


if __name__ == "__main__":
    main()
