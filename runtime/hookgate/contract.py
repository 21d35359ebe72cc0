"""The version of the public contract that this runtime speaks, and which one a portal names."""

from __future__ import annotations

from typing import Final

VERSION: Final = 3
HEADER: Final = "Hookgate-Contract"
# Names the attempt that consumed a request.
ATTEMPT_HEADER: Final = "Hookgate-Attempt"
# A portal that names none is of the version before the header.
UNNAMED: Final = 2


def read(value: str | None) -> int:
    """The version in an answer's header; `UNNAMED` where there is none, or none that can be read."""
    text = (value or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else UNNAMED


def explain_older(version: int) -> str:
    """Why nobody is asked at a portal of ``version``, and which side to upgrade."""
    return (
        f"needs approval, and the portal is of an older release (contract {version}) than this runtime "
        f"(contract {VERSION}): upgrade the portal; calls that need no approval go on"
    )
