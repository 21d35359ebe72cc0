"""Hide parts of tool arguments from whoever only reads about a call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

REDACTED: Final = "[redacted]"

# Key names that usually hold a secret; compared in lower case with `-` read as `_`.
SECRET_KEYS: Final = frozenset(
    {
        "password", "passwd", "passphrase", "pwd", "secret", "secrets", "client_secret", "app_secret",
        "token", "access_token", "refresh_token", "id_token", "auth_token", "bearer_token", "session_token",
        "api_key", "apikey", "x_api_key", "access_key", "secret_key", "private_key", "signing_key",
        "encryption_key", "authorization", "proxy_authorization", "cookie", "set_cookie", "credential",
        "credentials", "signature", "otp", "pin", "cvv", "cvc", "ssn",
    }
)  # fmt: skip


def redact(args: Any, paths: Iterable[str], *, secret_keys: frozenset[str] = frozenset()) -> Any:
    """A copy of ``args`` in which every value that a path names is ``"[redacted]"``.

    A path without a dot names that key at any depth. A dotted path starts at the root; ``*`` is any
    key or list index, and lists are descended without being named. ``secret_keys`` are names in lower
    case that count at any depth in whatever case they are written. ``args`` itself is not changed.
    """
    names: set[str] = set()
    trails: list[tuple[str, ...]] = []
    for path in paths:
        parts = tuple(path.split("."))
        if len(parts) == 1:
            names.add(path)
        else:
            trails.append(parts)
    return _redact(args, names, secret_keys, trails)


def _redact(value: Any, names: set[str], secrets: frozenset[str], trails: list[tuple[str, ...]]) -> Any:
    if isinstance(value, dict):
        return {key: _redact_member(str(key), item, names, secrets, trails) for key, item in value.items()}
    if isinstance(value, list):
        return [
            _redact_member(str(index), item, names, secrets, trails, keep=trails)
            for index, item in enumerate(value)
        ]
    return value


def _redact_member(
    key: str,
    item: Any,
    names: set[str],
    secrets: frozenset[str],
    trails: list[tuple[str, ...]],
    *,
    keep: list[tuple[str, ...]] | None = None,
) -> Any:
    """One member of an object, or of a list when ``keep`` holds the trails that pass through it."""
    if keep is None and ("*" in names or key in names or key.lower().replace("-", "_") in secrets):
        return REDACTED
    followed = [trail for trail in trails if trail[0] in (key, "*")]
    if any(len(trail) == 1 for trail in followed):
        return REDACTED
    # Deduplicated: through nested lists `*` both stays and is used up, which would double at each level.
    onward = list(dict.fromkeys([trail[1:] for trail in followed] + (keep or [])))
    return _redact(item, names, secrets, onward)
