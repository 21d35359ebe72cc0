"""Sending a Django response as ASGI messages."""

from collections.abc import Awaitable, Callable
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase

Send = Callable[[dict[str, Any]], Awaitable[None]]
# Statuses whose answers have no body, and say nothing about its length.
BARE = frozenset({204, 304})


async def send(send: Send, response: HttpResponse, *more: tuple[bytes, bytes]) -> None:
    """Send a whole response, with ``more`` headers."""
    if not response.has_header("Content-Length") and response.status_code not in BARE:
        more = (*more, (b"content-length", str(len(response.content)).encode()))
    await start(send, response, *more)
    await send({"type": "http.response.body", "body": response.content})


async def start(send: Send, response: HttpResponseBase, *more: tuple[bytes, bytes]) -> None:
    """Send status and headers; the body is up to the caller."""
    headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    cookies = [
        (b"set-cookie", morsel.output(header="").strip().encode()) for morsel in response.cookies.values()
    ]
    await send(
        {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": [*headers, *cookies, *more],
        }
    )
