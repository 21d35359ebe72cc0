"""A small ASGI layer: request, response, routes. The sandbox stands alone and needs no framework for a dozen paths."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
MAX_BODY = 2 * 1024 * 1024


@dataclass
class Request:
    """A whole request. `path` is relative to where the application is mounted; header names are lower case."""

    method: str
    path: str
    root: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def text(self) -> str:
        return self.body.decode(errors="replace")

    def json_object(self) -> dict[str, Any] | None:
        """The body, if it was declared as JSON and is an object."""
        if self.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            return None
        try:
            parsed = json.loads(self.body)
        except ValueError:
            return None
        return parsed if isinstance(parsed, dict) else None

    def form(self) -> dict[str, str]:
        """The fields of a posted HTML form; line ends as \\n."""
        pairs = parse_qsl(self.text(), keep_blank_values=True)
        return {name: value.replace("\r\n", "\n") for name, value in pairs}


@dataclass
class Response:
    """An answer. `dropped`: close the connection instead."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    dropped: bool = False


def as_json(value: object, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(value, ensure_ascii=False).encode()
    return Response(status, body, {"content-type": "application/json; charset=utf-8", **(headers or {})})


Handler = Callable[[Request, str], Awaitable[Response]]


@dataclass(frozen=True)
class Route:
    """`pattern` is a path in which `{}` stands for one segment, handed to the handler."""

    method: str
    pattern: str
    handler: Handler


class Router:
    """Finds the handler for a method and a path."""

    def __init__(self, routes: list[Route], *, not_found: Callable[[Request], Response]) -> None:
        self.routes = [
            (route, re.compile(re.escape(route.pattern).replace(r"\{\}", "([^/]+)"))) for route in routes
        ]
        self.not_found = not_found

    async def handle(self, request: Request) -> Response:
        for route, pattern in self.routes:
            match = pattern.fullmatch(request.path)
            if match is not None and route.method == request.method:
                return await route.handler(request, match[1] if match.groups() else "")
        return self.not_found(request)


async def read(scope: Scope, receive: Receive) -> Request | None:
    """The request with its body; None when it is larger than MAX_BODY or the client has gone."""
    body = bytearray()
    more = True
    while more:
        part = await receive()
        if part["type"] == "http.disconnect":
            return None
        body += part.get("body", b"")
        more = part.get("more_body", False)
        if len(body) > MAX_BODY:
            return None
    root = str(scope.get("root_path", "")).rstrip("/")
    path = str(scope["path"])
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]  # some servers leave the mount point in the path, some take it out
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
    return Request(scope["method"], path, root, query, headers, bytes(body))


async def answer(send: Send, response: Response) -> None:
    """Sends a response, or closes the connection."""
    if response.dropped:
        await _drop(send)
        return
    headers = {"content-length": str(len(response.body)), "cache-control": "no-store", **response.headers}
    pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": pairs})
    await send({"type": "http.response.body", "body": response.body})


async def _drop(send: Send) -> None:
    """ASGI has no word for hanging up: take the server's transport where it shows one, else break off an answer."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if isinstance(transport, asyncio.Transport):
        transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)  # lets the server notice, so that it does not try to answer for us
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100000")]})
    await send({"type": "http.response.body", "body": b" ", "more_body": True})
