"""The ids of calls and conversations: what may be one, and what both sides use of a long one (contract section 5)."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any, Final

from hookgate import canonical, texts

LONGEST: Final = 8192
# What is used of a longer one: its beginning, `~`, and the SHA-256 of the whole in hex.
SHOWN: Final = 200
_BEGINNING: Final = 135


def shorten(text: str) -> str:
    """The id as both sides use it: shown in the resource, and compared. At most `SHOWN` characters."""
    if len(text) <= SHOWN:
        return text
    return f"{text[:_BEGINNING]}~{hashlib.sha256(text.encode()).hexdigest()}"


def check(field: str, value: Any, *, longest: int = LONGEST) -> str:
    """``value``, a text of 1 to ``longest`` characters that every reader of I-JSON takes.
    Raises NotCanonical, a ValueError, which names the field."""
    if not isinstance(value, str):
        raise canonical.NotCanonical(
            field, f"must be a text of 1 to {longest} characters, not {texts.name_type(value)}"
        )
    if not 0 < len(value) <= longest:
        raise canonical.NotCanonical(field, f"must be a text of 1 to {longest} characters, not {len(value)}")
    canonical.check(value, path=field)
    return value


def take_conversation(value: Any, otherwise: str) -> str:
    """The id of a conversation as both sides use it; ``otherwise`` for none. Raises NotCanonical."""
    return otherwise if value is None or value == "" else shorten(check("conversation_id", value))


def read(value: Any) -> tuple[str, canonical.NotCanonical | None]:
    """The id of a call as a model or a program gave it, and what is wrong with it. A fresh one for none; of what can't
    be one, something that hooks and logs can read."""
    if value is None or (isinstance(value, str) and not value):
        return str(uuid.uuid4()), None
    try:
        return check("tool_call_id", value), None
    except canonical.NotCanonical as error:
        text = value if isinstance(value, str) else texts.say(value)
        return texts.readable(text or texts.name_type(value))[:LONGEST], error


def join(path: str, call_id: str) -> str:
    """What the portal knows a call by: its own id, after the ``path`` of the delegation where there is one."""
    return shorten(f"{path}/{call_id}" if path else call_id)


def as_path(*parts: str) -> str:
    """The path of a delegation, in which no slash stands: the first of an id divides path and id."""
    return "/".join(parts).replace("/", "%2F").replace("~", "%7E")


def without_path(call_id: str) -> str | None:
    """What a runtime of before paths would have called a delegate's call; None where the id has no path."""
    path, divided, own = call_id.partition("/")
    return own if divided and path and own else None
