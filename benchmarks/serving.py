"""The portal's server with a bare view beside it: same process, same server, same loop.

``python -m benchmarks.serving PORT``. ``/bare`` is answered by a Django handler without any middleware, from a view
that touches no database. ``/committed/TOPIC`` says when the last change of that topic was committed, in seconds of the
machine's monotonic clock. Every other path is the portal's own.
"""

import sys
import time
from typing import Any

from django.core.handlers.asgi import ASGIHandler
from django.test.utils import override_settings

from portal import asgi
from portal.serving import server
from portal.wakeups import wakeups

BARE = "/bare"
COMMITTED = "/committed/"
# The view behind it: what the portal itself answers without looking at anything.
VIEW = "/healthz"


class Beside:
    """The portal's application, and the bare handler in front of it."""

    def __init__(self, portal: Any) -> None:
        self._portal = portal
        self._committed: dict[str, float] = {}
        with override_settings(MIDDLEWARE=[]):
            self._bare: Any = ASGIHandler()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["path"] == BARE:
            await self._bare({**scope, "path": VIEW, "raw_path": VIEW.encode()}, receive, send)
        elif scope["type"] == "http" and scope["path"].startswith(COMMITTED):
            moment = self._committed[scope["path"].removeprefix(COMMITTED)]
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": repr(moment).encode()})
        else:
            await self._portal(scope, receive, send)

    def watch(self) -> None:
        """Note the time of every commit that wakes somebody: publishing is the first thing after it."""
        publish = wakeups.publish

        def noting(*topics: str) -> None:
            self._committed |= dict.fromkeys(topics, time.monotonic())
            publish(*topics)

        wakeups.publish = noting


def main() -> None:
    """Serve until a signal, with the very options of `manage.py serve`."""
    server.raise_open_files()
    listener = server.bind("127.0.0.1", int(sys.argv[1]))
    beside = Beside(asgi.application)
    beside.watch()
    asgi.application = beside  # type: ignore[assignment]
    server.serve(listener)


if __name__ == "__main__":
    main()
