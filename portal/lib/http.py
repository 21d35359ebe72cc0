"""The one outgoing HTTP client.

Every call has a time limit, follows no redirect, and reaches only hosts that its owner lists. A private address is
refused where the connection is opened, so that neither a redirect nor a changed DNS answer slips past.
"""

import ipaddress
import socket
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import httpcore
import httpx
from django.conf import settings

TIMEOUT = httpx.Timeout(10.0, connect=5.0)
# Seconds for a whole call; the time limits above are for each single step of it.
LONGEST_CALL = 20.0
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


def _addresses(host: str, port: int) -> list[str]:
    """Where to connect for ``host``: itself when it is listed, else the addresses it has now, each of them public."""
    if _listed(host, port):
        return [host]
    found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not all(ipaddress.ip_address(address).is_global for address in found):
        raise ForbiddenAddress(f"{host} resolves to a private address; list it in HOOKGATE_CHANNEL_HOSTS")
    return found


class _GuardedBackend(httpcore.SyncBackend):
    """Connects to the very addresses that were checked: a second look-up could be told something else."""

    def connect_tcp(self, host: str, port: int, *args: Any, **options: Any) -> httpcore.NetworkStream:
        try:
            addresses = _addresses(host, port)
        except socket.gaierror as error:
            raise httpcore.ConnectError(f"{host} does not resolve") from error
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return super().connect_tcp(address, port, *args, **options)
            except httpcore.ConnectError as error:
                failure = error
        raise failure


def _transport() -> httpx.HTTPTransport:
    transport = httpx.HTTPTransport()
    # httpx has no parameter for the network backend of its pool. The certificate is still checked for the host's name.
    transport._pool = httpcore.ConnectionPool(
        ssl_context=httpx.create_ssl_context(trust_env=False),
        max_connections=100,
        max_keepalive_connections=20,
        keepalive_expiry=5.0,
        network_backend=_GuardedBackend(),
    )
    return transport


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
        give_up = time.monotonic() + LONGEST_CALL
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
                if time.monotonic() > give_up:
                    raise httpx.ReadTimeout("the answer came too slowly", request=response.request)
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
        _http = httpx.Client(transport=_transport(), follow_redirects=False, trust_env=False, timeout=TIMEOUT)
    return _http
