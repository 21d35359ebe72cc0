"""Identifiers."""

import uuid


def new() -> uuid.UUID:
    """A random UUID (RFC 9562, version 4): nothing about it can be guessed or ordered."""
    return uuid.uuid4()


def parse(value: str) -> uuid.UUID | None:
    """The UUID that ``value`` spells, or ``None``."""
    try:
        return uuid.UUID(value)
    except (ValueError, AttributeError, TypeError):
        return None
