"""The beginning of a call's arguments, made once when it is asked for, so that no list has to read them whole."""

from collections.abc import Iterable
from typing import Any

from hookgate import canonical, redaction

# Characters; the contract's (4, lists of confirmations).
LENGTH = 160


def of(args: Any, redact: Iterable[str]) -> str:
    """The first 160 characters of the canonical JSON of ``args``, the values at the paths ``redact`` hidden."""
    return canonical.canonicalize(redaction.redact(args, redact)).decode("utf-8")[:LENGTH]
