"""The version of the public contract, which every answer of the API names, whoever made it.

A runtime asks people nothing at a portal that doesn't name the version it was written for, so an answer without the
header (a refusal that Django never saw, a 304, a stream) would stop gated calls.
"""

from typing import Final

import structlog

from portal.api import answers, problems
from portal.lib.problems import Problem
from portal.serving.bounds import Application, Message, Receive, Scope, Send

VERSION: Final = 3
HEADER: Final = "Hookgate-Contract"
# Who sends no header speaks this version.
UNNAMED: Final = 2
# Since when the ids of a delegate's calls begin with its path.
WITH_PATHS: Final = 3
# Versions are stored; whatever a caller names has its place.
_LARGEST: Final = 32_767
_ROOT: Final = "/api/v1"
_LINE: Final = (HEADER.lower().encode(), str(VERSION).encode())

log = structlog.get_logger(__name__)


class NamedContract:
    """ASGI middleware, the outermost: puts the header on every answer under ``/api/v1``, and answers 500 ``internal``
    where an application fails without one."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and name the version in its answer."""
        if scope["type"] != "http" or not _is_of_api(scope["path"]):
            await self._application(scope, receive, send)
            return
        started = False

        async def naming(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                others = [line for line in message.get("headers", ()) if line[0].lower() != _LINE[0]]
                message = {**message, "headers": [*others, _LINE]}
            await send(message)

        try:
            await self._application(scope, receive, naming)
        except Exception as error:
            if started:
                raise
            log.error("api.failed", path=scope["path"], exc_info=error)
            failed = Problem(500, "internal", "The portal failed to answer; its log has the reason.")
            await answers.send(naming, problems.respond(failed))


def read(value: str | None) -> int:
    """The version that a caller names; the one before headers where there is none, or none that can be read."""
    text = (value or "").strip()
    return min(int(text), _LARGEST) if text.isascii() and text.isdigit() and len(text) <= 9 else UNNAMED


def _is_of_api(path: str) -> bool:
    return path == _ROOT or path.startswith(f"{_ROOT}/")
