"""Text that can go anywhere: into a model's request, a log, the portal."""

from __future__ import annotations

from typing import Any

from hookgate import origin


def readable(text: str) -> str:
    """``text`` without what no reader of UTF-8 and JSON takes: NUL characters and lone surrogates become U+FFFD."""
    if type(text) is not str:
        text = str.__str__(text)
    if text.isascii():
        return text.replace("\x00", "\ufffd") if "\x00" in text else text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Halves that belong together become one character.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\x00", "\ufffd")


def name_type(value: Any) -> str:
    """The name of a value's type, whatever its class makes of it."""
    return readable(type.__getattribute__(type(value), "__name__"))


def say(value: Any) -> str | None:
    """What a foreign object says of itself; None when it can't."""
    try:
        return readable(str(value))
    except BaseException as error:
        if origin.is_programs(error):
            raise
        return None
