"""Secrets at rest, and the digests of keys and tokens.

Secrets are Fernet tokens (AES-128-CBC with HMAC-SHA256, https://github.com/fernet/spec). The first key of
``HOOKGATE_ENCRYPTION_KEYS`` encrypts, every key decrypts, so a key is replaced by putting the new one in front and
running ``manage.py rotate_keys``.
"""

import hashlib
import hmac
import secrets
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class DecryptionFailed(Exception):
    """A stored secret can't be read with any of the configured keys. Its text never holds the secret."""


@lru_cache(maxsize=8)
def _box(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key.encode()) for key in keys])


def _current() -> MultiFernet:
    return _box(tuple(settings.ENCRYPTION_KEYS))


def encrypt(data: bytes) -> str:
    """Encrypt ``data`` with the first key; the result is printable ASCII."""
    return _current().encrypt(data).decode("ascii")


def decrypt(token: str) -> bytes:
    """Return the bytes behind ``token``. Raises :class:`DecryptionFailed`."""
    try:
        return _current().decrypt(token.encode("ascii"))
    except (InvalidToken, UnicodeEncodeError) as error:
        raise DecryptionFailed("no configured encryption key can read this value") from error


def rotate(token: str) -> str:
    """Re-encrypt ``token`` with the first key, keeping its time stamp. Raises :class:`DecryptionFailed`."""
    try:
        return _current().rotate(token.encode("ascii")).decode("ascii")
    except InvalidToken as error:
        raise DecryptionFailed("no configured encryption key can read this value") from error


def new_bearer(prefix: str) -> tuple[str, str]:
    """Make a bearer credential. Returns ``(plain, digest)``; only the digest is ever stored.

    192 random bits need no slow hash: SHA-256 of the whole string can't be searched.
    """
    plain = f"{prefix}{secrets.token_urlsafe(24)}"
    return plain, bearer_digest(plain)


def bearer_digest(plain: str) -> str:
    """Lower-case hex SHA-256 of a bearer credential, the form in which it is stored and looked up."""
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def same(left: str | bytes, right: str | bytes) -> bool:
    """Compare two secrets in constant time."""
    first = left.encode() if isinstance(left, str) else left
    second = right.encode() if isinstance(right, str) else right
    return hmac.compare_digest(first, second)
