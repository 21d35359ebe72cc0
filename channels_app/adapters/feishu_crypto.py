"""Feishu's callback signature and envelope.

Source: Feishu Open Platform, "Encrypt strategy" of events and callbacks: signature = hex SHA-256 of timestamp, nonce,
encrypt key and raw body; envelope = base64 of a 16-byte IV and AES-256-CBC with PKCS#7, the key being the SHA-256 of
the encrypt key.
"""

import base64
import binascii
import hashlib

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

BLOCK = 16


def sign(*, timestamp: str, nonce: str, encrypt_key: str, body: bytes) -> str:
    """The signature that an authentic request carries, in lower-case hex."""
    return hashlib.sha256(f"{timestamp}{nonce}{encrypt_key}".encode() + body).hexdigest()


def decrypt(envelope: str, *, encrypt_key: str) -> bytes:
    """The plaintext of an envelope. Raises ``ValueError`` for bad base64, a bad length or bad padding."""
    try:
        raw = base64.b64decode(envelope, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("not base64") from error
    if len(raw) < 2 * BLOCK or len(raw) % BLOCK:
        raise ValueError("not whole blocks")
    key = hashlib.sha256(encrypt_key.encode()).digest()
    decryptor = Cipher(algorithms.AES(key), modes.CBC(raw[:BLOCK])).decryptor()
    unpadder = PKCS7(BLOCK * 8).unpadder()
    padded = decryptor.update(raw[BLOCK:]) + decryptor.finalize()
    return unpadder.update(padded) + unpadder.finalize()
