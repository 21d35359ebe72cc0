"""Where the portal is: an origin and nothing else, and no key over a wire that anybody can read."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

_EXAMPLE = "such as https://hookgate.example"


def check(url: str, *, allow_http: bool = False) -> str:
    """The portal's origin. Raises ValueError, without what may be secret in it, for anything else: a user, password,
    path, query or fragment, and plain http to another machine than this one unless ``allow_http``."""
    if not isinstance(url, str):
        raise ValueError(f"url must be a text, {_EXAMPLE}, not {type(url).__name__}")
    parts = _split(url)
    if "@" in parts.netloc:
        raise ValueError("url must have no user and no password in it; the runtime key is its own parameter")
    if not url.isprintable() or " " in url or "\\" in url:
        raise ValueError(
            f"url has blanks or characters in it that no address has; give the portal's origin, {_EXAMPLE}"
        )
    if "?" in url or "#" in url:
        raise ValueError(
            f"url must have no query and no fragment; give the portal's origin alone, {_EXAMPLE}"
        )
    if parts.path not in ("", "/"):
        raise ValueError(
            f"url must have no path, and has {parts.path!r}; give the portal's origin alone: {parts.scheme}://{parts.netloc}"
        )
    if parts.scheme == "http" and not allow_http and not _is_this_machine(parts.hostname or ""):
        raise ValueError(
            f"url is plain http to {parts.hostname}, where everybody on the way can read the runtime key; use https, "
            "or say allow_http=True for a network that you trust"
        )
    return f"{parts.scheme}://{parts.netloc}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise ValueError(f"url is not an address ({error}); give the portal's origin, {_EXAMPLE}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"url is not the portal's origin, {_EXAMPLE}")
    return parts


def _is_this_machine(host: str) -> bool:
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
