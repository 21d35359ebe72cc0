"""The proxy on the way to the portal, as the environment names it."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_SCHEMES: Final = ("http", "https", "socks5", "socks5h")
_REMEDY: Final = "correct the variable, or name the portal's host in NO_PROXY"


@dataclass(frozen=True, slots=True)
class Proxy:
    """``variable`` is where it was named: an environment variable, or the system's settings."""

    url: str
    variable: str

    def __str__(self) -> str:
        # Without user and password, which a log is not for.
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]} ({self.variable})"


def find(scheme: str, host: str, port: int | None) -> Proxy | None:
    """The proxy for ``scheme``://``host``; None where there is none.

    Raises ValueError, naming the variable and the remedy, for one that can't be used.
    """
    # Imports a good deal, which the HTTP client does too.
    import urllib.request

    named = urllib.request.getproxies()
    kind = scheme if scheme in named else "all"
    address = named.get(kind)
    if not address or urllib.request.proxy_bypass(f"{host}:{port}" if port else host):
        return None
    found = Proxy(address if "://" in address else f"http://{address}", _variable(kind))
    _check(found)
    return found


def _variable(kind: str) -> str:
    for name in (f"{kind}_proxy", f"{kind}_proxy".upper()):
        if os.environ.get(name):
            return name
    return "the system's settings"


def _check(proxy: Proxy) -> None:
    try:
        parts = urlsplit(proxy.url)
        usable = parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(
            f"{proxy.variable} names no proxy that this runtime can use (one of {', '.join(_SCHEMES)}, such as "
            f"http://proxy.example:3128); {_REMEDY}"
        )
    if parts.scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
        raise ValueError(
            f"{proxy.variable} names a SOCKS proxy, and the package socksio, which speaks to one, is not "
            f"installed: pip install 'httpx[socks]'; or {_REMEDY}"
        )
