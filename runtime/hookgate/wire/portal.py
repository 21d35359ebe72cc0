"""The one way from the runtime to the portal: typed errors, bounded time, no retries of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from hookgate import canonical, contract
from hookgate.copying import Copied
from hookgate.wire import bodies, forks, portal_url, proxies

if TYPE_CHECKING:
    # Importing the client takes longer than importing all of ours: it comes with the first Portal.
    import httpx

_MAX_DEPTH: Final = 64
# Bytes of an answer, unpacked. A registry of 10,000 tools has some 2 MiB; a request's arguments have 256 KiB at most.
_MAX_ANSWER: Final = 16 * 1024 * 1024
_MAX_REFUSAL: Final = 1024 * 1024
# A 429 that is an answer: it says something of the request and not only "later".
_TOLD_WITH_429: Final = frozenset({"too_many_pending"})
_MAX_NAME: Final = 100
# How many requests of one kind are under way at once; the others queue here, without a connection.
_AT_ONCE: Final = {"asks": 32, "uses": 32, "plain": 32}

Lane = Literal["plain", "asks", "uses", "waits"]
_FREE: Final = contextlib.nullcontext()


class Unreachable(Copied, Exception):
    """No usable answer: refused, reset, timed out, 5xx, 429, or something that isn't the portal's.
    ``retry_after`` is in seconds where the portal named a time; ``timed_out`` when it took too long."""

    def __init__(self, message: str, retry_after: float | None = None, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.timed_out = timed_out


class Refused(Copied, Exception):
    """The portal's own no: a 4xx, and of 429 what is about the request itself. ``code`` is the problem's code."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{detail} ({code})" if detail else code)
        self.status = status
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of status 200 to 304. ``body`` is None where there is none; ``contract`` is the version that the
    portal named with it. ``attempt`` is the header ``Hookgate-Attempt``: whose use of an approval the answer tells."""

    status: int
    body: Any
    etag: str | None
    contract: int = contract.UNNAMED
    attempt: str | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer as it came, its body read and unpacked."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Portal:
    """A connection pool for short calls and one for what lasts, so that waits never starve the rest.

    The short ones go in lanes that don't hold each other up: asking people, using what they said, and
    everything else. `hookgate.wire.waits` bounds how many requests last.
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
        # What the portal's last answer named; None before the first.
        self.contract: int | None = None
        self._headers = _headers(key, name)
        self._transport = transport
        # Reading the certificates takes longer than a request: once for both pools, and not for plain http.
        self._tls: Any = _read_certificates() if self.url.startswith("https:") else False
        self._proxy = _find_proxy(self.url) if transport is None else None
        self._short = self._open(httpx.Limits(max_connections=sum(_AT_ONCE.values())))
        self._long = self._open(httpx.Limits(max_connections=None))
        forks.hold(self)
        self._lanes = {lane: asyncio.Semaphore(limit) for lane, limit in _AT_ONCE.items()}

    def give_back(self) -> None:
        """In a child of a fork: the connections are the parent's."""
        for client in (self._short, self._long):
            pool = getattr(getattr(client, "_transport", None), "_pool", None)
            for connection in getattr(pool, "connections", ()):
                stream = getattr(getattr(connection, "_connection", None), "_network_stream", None)
                plug = stream.get_extra_info("socket") if stream is not None else None
                if plug is not None and plug.fileno() >= 0:
                    forks.let_go(plug.fileno())

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
            # Its own reading of the environment raises errors that name no variable.
            trust_env=False,
            proxy=self._proxy.url if self._proxy else None,
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
            async with (
                self._lanes.get(lane, _FREE),
                asyncio.timeout(limit * 2),
                client.stream(
                    method, path, params=params, headers=headers, timeout=limit, **sent
                ) as response,
            ):
                answer = await _receive(response)
        except (httpx.HTTPError, httpx.StreamError, TimeoutError, OSError) as error:
            raise self._explain(error) from None
        except RuntimeError:
            self._note_closed(client)
            raise
        except (UnicodeError, ValueError, TypeError) as error:
            raise Refused(400, "invalid", f"the request is not JSON: {error}") from None
        return self._note(_read(answer))

    def _note(self, reply: Reply) -> Reply:
        self.contract = reply.contract
        return reply

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
            raise self._explain(error) from None
        except RuntimeError:
            self._note_closed(client)
            raise

    def _note_closed(self, client: httpx.AsyncClient) -> None:
        if client.is_closed:
            raise Unreachable("the runtime is closed") from None

    def _explain(self, error: Exception) -> Unreachable:
        """What kept the answer away, for the log: the fault, the way that was taken, and what is likely to mend it."""
        import httpx

        text = f"{type(error).__name__}{f': {error}' if str(error) else ''}; {self.url}"
        if self._proxy is not None:
            text += f" through the proxy {self._proxy}"
        return Unreachable(
            text + _guess_remedy(self.url, error, proxied=self._proxy is not None),
            timed_out=isinstance(error, httpx.TimeoutException | TimeoutError),
        )


async def _receive(response: httpx.Response) -> _Answer:
    limit = _MAX_REFUSAL if response.status_code >= 400 else _MAX_ANSWER
    try:
        content = await bodies.read(response, limit)
    except bodies.BodyUnusable as error:
        raise Unreachable(f"{error} (status {response.status_code})") from None
    return _Answer(response.status_code, response.headers, content)


async def _check_stream(response: httpx.Response, timeout: float) -> None:
    if response.status_code == 200:
        kind = response.headers.get("content-type", "")
        if kind.partition(";")[0].strip().lower() != "text/event-stream":
            raise Unreachable(f"something that isn't the portal answered with {kind or 'no content type'}")
        if packing := response.headers.get("content-encoding", "").strip().lower().removeprefix("identity"):
            raise Unreachable(f"the event stream is packed with {packing[:40]!r}, which was not asked for")
        return
    async with asyncio.timeout(timeout):
        answer = await _receive(response)
    _read(answer)
    raise Unreachable(f"something that isn't the portal answered {response.status_code}")


def _read(answer: _Answer) -> Reply:
    status = answer.status
    named = contract.read(answer.headers.get(contract.HEADER))
    if status == 304:
        return Reply(304, None, answer.headers.get("etag"), named)
    if status >= 400:
        raise _read_failure(answer)
    if status not in (200, 201, 202, 204):
        raise Unreachable(f"something that isn't the portal answered {status}")
    if status == 204 or not answer.content:
        if status == 204 or status == 202:
            return Reply(status, None, None, named)
        raise Unreachable("the portal's answer is empty")
    try:
        body = canonical.loads(answer.content, max_depth=_MAX_DEPTH)
    except canonical.NotCanonical as error:
        raise Unreachable(f"the portal's answer is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise Unreachable("the portal's answer is not an object")
    return Reply(status, body, answer.headers.get("etag"), named, answer.headers.get(contract.ATTEMPT_HEADER))


def _read_failure(answer: _Answer) -> Unreachable | Refused:
    problem = _read_problem(answer)
    if answer.status >= 500 or (answer.status == 429 and problem.code not in _TOLD_WITH_429):
        return Unreachable(f"the portal answered {answer.status}: {problem}", _retry_after(answer))
    return problem


def _read_problem(answer: _Answer) -> Refused:
    code, detail = f"http_{answer.status}", ""
    with contextlib.suppress(canonical.NotCanonical):
        body = canonical.loads(answer.content, max_depth=_MAX_DEPTH)
        if isinstance(body, dict):
            code = str(body.get("code") or code)
            detail = str(body.get("detail") or body.get("title") or "")
            detail += _list_errors(body.get("errors"), said=detail)
    return Refused(answer.status, code, detail)


def _list_errors(errors: Any, *, said: str) -> str:
    """The errors of a problem that its detail doesn't tell already."""
    if not isinstance(errors, list):
        return ""
    lines = [f"{item.get('path')}: {item.get('message')}" for item in errors[:10] if isinstance(item, dict)]
    return "".join(f"; {line}" for line in lines if line not in said)


def _retry_after(answer: _Answer) -> float | None:
    with contextlib.suppress(ValueError):
        return min(60.0, max(0.0, float(answer.headers.get("retry-after", ""))))
    return None


def _guess_remedy(url: str, error: Exception, *, proxied: bool) -> str:
    """What people get wrong most often when it looks like this; empty where nothing is likely."""
    import ssl

    text = str(error).lower()
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "; its certificate is not trusted here: SSL_CERT_FILE names the authority's certificate"
    if isinstance(cause, ssl.SSLError) or "wrong_version_number" in text or "record layer" in text:
        return "; that port seems to speak plain http: HOOKGATE_URL with http://, or with the port that speaks https"
    if url.startswith("http:") and not proxied and type(error).__name__ == "RemoteProtocolError":
        return "; if that port speaks https, HOOKGATE_URL begins with https://"
    return ""


def _read_certificates() -> Any:
    import httpx

    try:
        return httpx.create_ssl_context()
    except OSError as error:
        raise ValueError(
            f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names can't be read: {error}"
        ) from None


def _find_proxy(url: str) -> proxies.Proxy | None:
    import httpx

    parsed = httpx.URL(url)
    return proxies.find(parsed.scheme, parsed.host, parsed.port)


def _headers(key: str, name: str) -> dict[str, str]:
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("key is not a runtime key (hg_…); issue one with `manage.py issue_key`")
    if not 0 < len(name) <= _MAX_NAME or not name.isascii() or not name.isprintable():
        raise ValueError(f"name must have 1 to {_MAX_NAME} printable ASCII characters")
    return {
        "Authorization": f"Bearer {key}",
        "Hookgate-Runtime": name,
        contract.HEADER: str(contract.VERSION),
        "Accept": "application/json",
        "Accept-Encoding": bodies.ACCEPTED,
    }
