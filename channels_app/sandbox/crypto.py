"""What the platform does to a callback before it sends it: AES-256-CBC envelope and SHA-256 signature."""

import base64
import hashlib
import json
import secrets

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

BLOCK = 16


def encrypt(text: str, *, encrypt_key: str, iv: bytes | None = None) -> str:
    """Base64 of IV and ciphertext; the key is SHA-256 of the encrypt key, the padding PKCS#7."""
    data = text.encode()
    fill = BLOCK - len(data) % BLOCK
    return encrypt_blocks(data + bytes([fill]) * fill, encrypt_key=encrypt_key, iv=iv)


def encrypt_blocks(data: bytes, *, encrypt_key: str, iv: bytes | None = None) -> str:
    """The same for bytes that are already whole blocks, so that a test can pad them wrongly."""
    iv = iv or secrets.token_bytes(BLOCK)
    cipher = Cipher(algorithms.AES(hashlib.sha256(encrypt_key.encode()).digest()), modes.CBC(iv)).encryptor()
    return base64.b64encode(iv + cipher.update(data) + cipher.finalize()).decode()


def envelope(encrypted: str) -> bytes:
    """The request body around the ciphertext."""
    return json.dumps({"encrypt": encrypted}, separators=(",", ":")).encode()


def sign(*, timestamp: str, nonce: str, encrypt_key: str, body: bytes) -> str:
    """Value of `X-Lark-Signature`: hex SHA-256 over timestamp, nonce, encrypt key and the body as sent."""
    return hashlib.sha256((timestamp + nonce + encrypt_key).encode() + body).hexdigest()


def sign_v1(*, timestamp: str, nonce: str, verification_token: str, body: bytes) -> str:
    """The signature of the retired card callback: SHA-1 with the verification token in the key's place."""
    return hashlib.sha1(  # noqa: S324  the old protocol's choice
        (timestamp + nonce + verification_token).encode() + body
    ).hexdigest()
