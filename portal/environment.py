"""Readers of environment variables. Every secret ``NAME`` may also come as ``NAME_FILE``, the path of a file."""

import os
import secrets
from pathlib import Path
from typing import Any

import environ
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured

from portal.lib import closed


def text(name: str, default: str = "") -> str:
    """The variable, stripped; an empty one counts as unset."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool = False) -> bool:
    """``1 true yes on`` or ``0 false no off``. Raises ``ImproperlyConfigured`` for anything else."""
    value = text(name).lower()
    if not value:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name}: {value!r} is not a switch; use 1 or 0")


def number(name: str, default: int, *, largest: int, smallest: int = 0) -> int:
    """A whole number from ``smallest`` to ``largest``. Raises ``ImproperlyConfigured`` for anything else."""
    value = text(name)
    if not value:
        return default
    if value.isascii() and value.isdigit() and smallest <= int(value[:20]) <= largest:
        return int(value)
    raise ImproperlyConfigured(f"{name}: {value!r} is not a number from {smallest} to {largest}")


def address(name: str) -> str:
    """``HOST:PORT``, or empty. Raises ``ImproperlyConfigured`` for anything else."""
    value = text(name)
    host, _, port = value.rpartition(":")
    if not value or (host and port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        return value
    raise ImproperlyConfigured(f"{name}: {value!r} is not an address; use HOST:PORT, such as 0.0.0.0:9100")


def words(name: str) -> list[str]:
    """A comma-separated list; blanks are dropped."""
    return [word.strip() for word in text(name).split(",") if word.strip()]


def secret(name: str, default: str = "") -> str:
    """``NAME``, else the content of the file ``NAME_FILE``. Raises ``ImproperlyConfigured`` if it can't be read."""
    path = text(f"{name}_FILE")
    if not path:
        return text(name, default)
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE: {path} can't be read: {error.strerror}") from error


# Each way to speak SMTP, with its usual port and Django's settings for it.
_MAIL: dict[str, tuple[int, dict[str, bool]]] = {
    "smtp": (25, {}),
    "smtp+tls": (587, {"EMAIL_USE_TLS": True}),
    "smtps": (465, {"EMAIL_USE_SSL": True}),
}


def mail_server(name: str, url: str) -> dict[str, Any]:
    """Django's ``EMAIL_*`` settings from the URL of an SMTP server, with its user and password.

    Raises ``ImproperlyConfigured``, without the URL, for anything else: what is only printed or thrown away would look
    as if it were sent.
    """
    scheme = url.partition("://")[0]
    try:
        found = environ.Env.email_url_config(url) if scheme in _MAIL else {}
        port = found.get("EMAIL_PORT")
    except (ValueError, ImproperlyConfigured):
        found, port = {}, None
    if not found.get("EMAIL_HOST"):
        raise ImproperlyConfigured(
            f"{name}: use smtp+tls://user:password@host:587 (STARTTLS), smtps://user:password@host:465 or"
            " smtp://host:25, with signs such as @ in a password written as %40"
        )
    usual, ways = _MAIL[scheme]
    kept = {key: found[key] for key in ("EMAIL_HOST", "EMAIL_HOST_USER", "EMAIL_HOST_PASSWORD")}
    return {**kept, "EMAIL_PORT": port or usual, **ways}


def kept_secret(name: str, folder: Path) -> str:
    """A secret that makes itself on first use: ``NAME`` or ``NAME_FILE``, else a file of ``folder`` only we can read.

    The file makes the embedded installation work without configuration and survive restarts; ``check --deploy`` asks
    for the variable.
    """
    given = secret(name)
    if given:
        return given
    path = folder / name.lower().removeprefix("hookgate_")
    closed.make_folder(folder)
    if not path.exists():
        value = Fernet.generate_key().decode() if "ENCRYPTION" in name else secrets.token_urlsafe(48)
        temporary = path.with_suffix(f".{secrets.token_hex(4)}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(value)
        try:
            os.link(temporary, path)  # the first of two processes wins, and both read its value
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    closed.close_file(path)
    return path.read_text(encoding="utf-8").strip()
