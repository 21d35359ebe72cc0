"""The one way from the runtime to the portal: typed errors, bounded time, no retries of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from hookgate import canonical, portal_url

if TYPE_CHECKING:
    # Importing the client takes longer than importing all of ours: it comes with the first Portal.
    import httpx

_MAX_DEPTH: Final = 64
_MAX_NAME: Final = 100
# How many requests of one kind are under way at once; the others queue here, without a connection.
_AT_ONCE: Final = {"asks": 32, "uses": 32, "plain": 32}

Lane = Literal["plain", "asks", "uses", "waits"]
_FREE: Final = contextlib.nullcontext()


class Unreachable(Exception):
    """No usable answer: refused, reset, timed out, 5xx, 429, or something that isn't the portal's.
    ``retry_after`` is in seconds where the portal named a time; ``timed_out`` when it took too long."""

    def __init__(self, message: str, retry_after: float | None = None, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.timed_out = timed_out


class Refused(Exception):
    """The portal's own no: a 4xx other than 429. ``code`` is the problem's code."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{detail} ({code})" if detail else code)
        self.status = status
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of status 200 to 304. ``body`` is None where there is none. ``attempt`` is the header
    ``Hookgate-Attempt``: whose use of an approval the answer tells."""

    status: int
    body: Any
    etag: str | None
    attempt: str | None = None


class Portal:
    """A connection pool for short calls and one for what lasts, so that waits never starve the rest.

    The short ones go in lanes that don't hold each other up: asking people, using what they said, and
    everything else. `hookgate.waits` bounds how many requests last.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        name: str,
        timeout: float = 5.0,
        allow_http: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        import httpx

        self.url = portal_url.check(url, allow_http=allow_http)
        self.timeout = timeout
        self._headers = _headers(key, name)
        self._transport = transport
        # Reading the certificates takes longer than a request: once for both pools, and not for plain http.
        self._tls: Any = httpx.create_ssl_context() if self.url.startswith("https:") else False
        self._short = self._open(httpx.Limits(max_connections=sum(_AT_ONCE.values())))
        self._long = self._open(httpx.Limits(max_connections=None))
        self._lanes = {lane: asyncio.Semaphore(limit) for lane, limit in _AT_ONCE.items()}

    def _open(self, limits: httpx.Limits) -> httpx.AsyncClient:
        import httpx

        return httpx.AsyncClient(
            base_url=f"{self.url}/api/v1/",
            headers=self._headers,
            timeout=self.timeout,
            transport=self._transport,
            verify=self._tls,
            limits=limits,
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Close both pools."""
        await self._short.aclose()
        await self._long.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        hold: float = 0.0,
        lane: Lane = "plain",
    ) -> Reply:
        """One request to ``/api/v1/`` + path. ``hold`` is for how long the portal may sit on the answer.
        A ``body`` of bytes is JSON already. ``lane``: whose connections it takes, and behind whom it queues.

        Raises Unreachable and Refused.
        """
        import httpx

        client = self._long if lane == "waits" else self._short
        limit = self.timeout + hold
        if isinstance(body, bytes):
            headers = {"Content-Type": "application/json", **(headers or {})}
            sent: dict[str, Any] = {"content": body}
        else:
            sent = {"json": body}
        try:
            # httpx bounds each read, not the whole: a portal that trickles must not hold a call forever.
            async with self._lanes.get(lane, _FREE), asyncio.timeout(limit * 2):
                response = await client.request(
                    method, path, params=params, headers=headers, timeout=limit, **sent
                )
        except (httpx.HTTPError, httpx.StreamError, TimeoutError, OSError) as error:
            raise Unreachable(
                f"{type(error).__name__}{f': {error}' if str(error) else ''}",
                timed_out=isinstance(error, httpx.TimeoutException | TimeoutError),
            ) from None
        except RuntimeError:
            self._note_closed(client)
            raise
        except (UnicodeError, ValueError, TypeError) as error:
            raise Refused(400, "invalid", f"the request is not JSON: {error}") from None
        return _read(response)

    @contextlib.asynccontextmanager
    async def listen(self, path: str, *, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of an event stream, in chunks. ``silence``: seconds without a byte that end it.

        Raises Unreachable, also from within the block when the stream breaks, and Refused.
        """
        import httpx

        client = self._long
        # Compressed, a proxy would gather events before it passes them on.
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}
        limits = httpx.Timeout(self.timeout, read=silence)
        try:
            async with client.stream("GET", path, headers=headers, timeout=limits) as response:
                await _check_stream(response, self.timeout)
                yield response.aiter_raw()
        except (httpx.HTTPError, httpx.StreamError, TimeoutError, OSError) as error:
            raise Unreachable(f"{type(error).__name__}{f': {error}' if str(error) else ''}") from None
        except RuntimeError:
            self._note_closed(client)
            raise

    def _note_closed(self, client: httpx.AsyncClient) -> None:
        if client.is_closed:
            raise Unreachable("the runtime is closed") from None


async def _check_stream(response: httpx.Response, timeout: float) -> None:
    if response.status_code == 200:
        kind = response.headers.get("content-type", "")
        if kind.partition(";")[0].strip().lower() != "text/event-stream":
            raise Unreachable(f"something that isn't the portal answered with {kind or 'no content type'}")
        return
    async with asyncio.timeout(timeout):
        await response.aread()
    _read(response)
    raise Unreachable(f"something that isn't the portal answered {response.status_code}")


def _read(response: httpx.Response) -> Reply:
    status = response.status_code
    if status == 304:
        return Reply(304, None, response.headers.get("etag"))
    if status >= 500 or status == 429:
        raise Unreachable(f"the portal answered {status}: {_read_problem(response)}", _retry_after(response))
    if status >= 400:
        raise _read_problem(response)
    if status not in (200, 201, 202, 204):
        raise Unreachable(f"something that isn't the portal answered {status}")
    if status == 204 or not response.content:
        if status == 204 or status == 202:
            return Reply(status, None, None)
        raise Unreachable("the portal's answer is empty")
    try:
        body = canonical.loads(response.content, max_depth=_MAX_DEPTH)
    except canonical.NotCanonical as error:
        raise Unreachable(f"the portal's answer is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise Unreachable("the portal's answer is not an object")
    return Reply(status, body, response.headers.get("etag"), response.headers.get("hookgate-attempt"))


def _read_problem(response: httpx.Response) -> Refused:
    code, detail = f"http_{response.status_code}", ""
    with contextlib.suppress(canonical.NotCanonical):
        body = canonical.loads(response.content, max_depth=_MAX_DEPTH)
        if isinstance(body, dict):
            code = str(body.get("code") or code)
            detail = str(body.get("detail") or body.get("title") or "")
            detail += _list_errors(body.get("errors"))
    return Refused(response.status_code, code, detail)


def _list_errors(errors: Any) -> str:
    if not isinstance(errors, list):
        return ""
    lines = [f"{item.get('path')}: {item.get('message')}" for item in errors[:10] if isinstance(item, dict)]
    return "".join(f"; {line}" for line in lines)


def _retry_after(response: httpx.Response) -> float | None:
    with contextlib.suppress(ValueError):
        return min(60.0, max(0.0, float(response.headers.get("retry-after", ""))))
    return None


def _headers(key: str, name: str) -> dict[str, str]:
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("key is not a runtime key (hg_…); issue one with `manage.py issue_key`")
    if not 0 < len(name) <= _MAX_NAME or not name.isascii() or not name.isprintable():
        raise ValueError(f"name must have 1 to {_MAX_NAME} printable ASCII characters")
    return {"Authorization": f"Bearer {key}", "Hookgate-Runtime": name, "Accept": "application/json"}
