"""Digests of arguments, as people read them.

A digest of a four-digit secret tells the secret: whoever reads arguments with a part hidden gets no plain digest of
them. A tag with a key of the portal stands beside it, for "the same arguments?".
"""

from typing import Any
from uuid import UUID

from django.utils.crypto import salted_hmac
from hookgate.redaction import REDACTED

_PURPOSE = "hookgate.args_tag"


def tag(organization_id: UUID, digest: str) -> str:
    """64 hex digits: HMAC-SHA-256 of a digest with the portal's secret key, another in each organization."""
    return salted_hmac(f"{_PURPOSE}:{organization_id}", digest, algorithm="sha256").hexdigest()


def recorded(organization_id: UUID, digest: str, *, is_redacted: bool) -> dict[str, Any]:
    """What the audit trail keeps of arguments: ``{"args_tag"}``, and ``args_digest`` where nothing is hidden."""
    told = {} if is_redacted else {"args_digest": digest}
    return {**told, "args_tag": tag(organization_id, digest)}


def hides(value: Any) -> bool:
    """Whether a part of a logged call's arguments is hidden. Arguments that weren't kept count as hidden."""
    if value is None:
        return True
    found = [value]
    while found:
        item = found.pop()
        if item == REDACTED:
            return True
        if isinstance(item, dict):
            found.extend(item.values())
        elif isinstance(item, list):
            found.extend(item)
    return False
