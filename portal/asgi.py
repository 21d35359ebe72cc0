"""The way in: long-lived requests first, then the sandbox, then Django; each request's body bounded, each answer of the
API with the version of its contract."""

import os
from typing import Protocol

import django
from django.conf import settings
from django.utils.module_loading import import_string

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

# Loads the apps; what follows needs them.
django.setup(set_prefix=False)

from portal.contract import NamedContract  # noqa: E402
from portal.lib import deadline  # noqa: E402
from portal.serving import traffic  # noqa: E402
from portal.serving.bounds import Application, BoundedBodies, Receive, Scope, Send  # noqa: E402
from portal.serving.handler import handler  # noqa: E402
from portal.serving.threads import threads  # noqa: E402
from portal.wakeups import wakeups  # noqa: E402

deadline.serve()

SANDBOX_ROOT = "/sandbox"


class WaitingApplication(Protocol):
    """An application that answers the requests it takes without holding a thread for each."""

    def takes(self, scope: Scope) -> bool:
        """Whether this request is one of its own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer it."""


class Portal:
    """The applications of the portal, asked in order."""

    def __init__(
        self, *, waiting: WaitingApplication, sandbox: Application | None, rest: Application
    ) -> None:
        self._waiting = waiting
        self._sandbox = sandbox
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request to the first that takes it."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] != "http":
            raise ValueError(f"The portal speaks HTTP alone, not {scope['type']}.")
        elif self._sandbox is not None and _is_below(scope["path"], SANDBOX_ROOT):
            await self._sandbox(
                {**scope, "root_path": scope.get("root_path", "") + SANDBOX_ROOT}, receive, send
            )
        elif self._waiting.takes(scope):
            await self._waiting(scope, receive, send)
        else:
            await self._rest(scope, receive, send)


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            wakeups.start()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            wakeups.stop()
            threads().give_back_connections()
            await send({"type": "lifespan.shutdown.complete"})
            return


application = NamedContract(
    traffic.CountedRequests(
        BoundedBodies(
            Portal(
                waiting=import_string(settings.WAITING_APPLICATION),
                sandbox=import_string(settings.SANDBOX_APPLICATION) if settings.SANDBOX else None,
                rest=handler(),
            )
        )
    )
)
