"""The one outgoing HTTP client.

Every call has a time limit, follows no redirect, and reaches only hosts that its owner lists. A private address is
refused where the connection is opened, so that neither a redirect nor a changed DNS answer slips past.
"""

import ipaddress
import socket
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import httpx
from django.conf import settings

TIMEOUT = httpx.Timeout(10.0, connect=5.0)
MAX_ANSWER_BYTES = 4 * 1024 * 1024
_TRANSFER_HEADERS = {"content-encoding", "content-length", "transfer-encoding"}


class ForbiddenAddress(Exception):
    """The address is not one that this client may call. The text names the remedy."""


def check_base_url(url: str, *, hosts: Iterable[str]) -> None:
    """Refuse a base URL that is neither https on one of ``hosts`` nor on a host of ``HOOKGATE_CHANNEL_HOSTS``.

    A host listed in the setting (``host`` or ``host:port``) may be private and plain http. Raises
    :class:`ForbiddenAddress`.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ForbiddenAddress("use an http(s) URL such as https://open.feishu.cn")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ForbiddenAddress("a base URL has no user, query or fragment")
    if _listed(parts.hostname, _port(parts)):
        return
    if parts.hostname not in set(hosts):
        raise ForbiddenAddress(
            f"{parts.hostname} is not a host of this platform; list it in HOOKGATE_CHANNEL_HOSTS"
        )
    if parts.scheme != "https" or parts.port not in {None, 443}:
        raise ForbiddenAddress("use https on the standard port")


def _port(parts: Any) -> int:
    try:
        return parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise ForbiddenAddress("the port is not a number from 1 to 65535") from error


def _listed(host: str, port: int) -> bool:
    return host in settings.CHANNEL_HOSTS or f"{host}:{port}" in settings.CHANNEL_HOSTS


def _refuse_private(host: str, port: int) -> None:
    if _listed(host, port):
        return
    for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        if not ipaddress.ip_address(address[0]).is_global:
            raise ForbiddenAddress(f"{host} resolves to a private address; list it in HOOKGATE_CHANNEL_HOSTS")


class _GuardedBackend(httpx.BaseTransport):
    """Checks where a host name leads immediately before the connection is opened."""

    def __init__(self) -> None:
        self._inner = httpx.HTTPTransport(retries=0)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        try:
            _refuse_private(request.url.host, port)
        except socket.gaierror as error:
            raise httpx.ConnectError(f"{request.url.host} does not resolve", request=request) from error
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


class Client:
    """A small client for one base URL: JSON in, JSON out."""

    def __init__(self, base_url: str, *, hosts: Iterable[str]) -> None:
        check_base_url(base_url, hosts=hosts)
        self._base = base_url.rstrip("/")
        self._http = _shared()

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        params: dict[str, str] | None = None,
        json: Any = None,
        timeout: float | None = None,
    ) -> httpx.Response:
        """Make one call. Raises ``httpx.HTTPError`` and :class:`ForbiddenAddress`."""
        with self._http.stream(
            method,
            f"{self._base}{path}",
            headers=headers,
            params=params,
            json=json,
            timeout=TIMEOUT if timeout is None else timeout,
        ) as response:
            size = 0
            chunks = []
            for chunk in response.iter_bytes():
                size += len(chunk)
                if size > MAX_ANSWER_BYTES:
                    raise httpx.DecodingError("the answer is larger than 4 MiB", request=response.request)
                chunks.append(chunk)
        # The body is decoded already, so the headers that describe its encoding must go.
        kept = [(k, v) for k, v in response.headers.multi_items() if k.lower() not in _TRANSFER_HEADERS]
        return httpx.Response(
            response.status_code, headers=kept, content=b"".join(chunks), request=response.request
        )


_http: httpx.Client | None = None


def _shared() -> httpx.Client:
    """One connection pool per process."""
    global _http
    if _http is None:
        _http = httpx.Client(
            transport=_GuardedBackend(), follow_redirects=False, trust_env=False, timeout=TIMEOUT
        )
    return _http
