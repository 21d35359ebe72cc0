"""The beginning of a call's arguments, made once when it is asked for, so that no list has to read them whole."""

from collections.abc import Iterable
from typing import Any

from hookgate import canonical, redaction

# Characters; the contract's (4, lists of confirmations).
LENGTH = 160


def of(args: Any, redact: Iterable[str]) -> str:
    """The first 160 characters of the canonical JSON of ``args``, the values at the paths ``redact`` hidden."""
    return beginning(canonical.canonicalize(redaction.redact(args, redact)))


def beginning(shown: bytes) -> str:
    """The same of arguments in canonical form, as people see them."""
    # A character has at most four bytes; what is cut off in the middle of one lies behind them all.
    return shown[: LENGTH * 4].decode("utf-8", "ignore")[:LENGTH]
