"""Regular expressions in linear time: RE2, whatever the expression and the text.

Python's own engine tries one way after the other and can't be stopped meanwhile: `(a+)+b` over thirty letters takes
minutes, and with it the whole process. RE2 has neither look-around nor back references. What is left is the product of
program and text, and that is bounded here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

MAX_PATTERN: Final = 1024
# Names may be invented by a model, and reasons be long: what a matcher looks at.
MAX_SUBJECT: Final = 10_000
# Instructions of a matcher's program. Times MAX_SUBJECT, a tenth of a second at worst.
MAX_MATCHER: Final = 2_000
# Instructions of any program; `^[\pL\pN]{1,64}$` has 85,953.
_MAX_MEMORY: Final = 8 << 20
# What the expressions of one evaluation may take: instructions times characters, half a second at worst.
_MAX_STEPS: Final = 100_000_000
_COMPILING: Final = 100
_CALLING: Final = 200


_ESCAPED: Final = re.compile(r"\\[pPx]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]", re.DOTALL)
_REPETITION: Final = re.compile(r"\{\d{1,4}(?:,\d{0,4})?\}")


class PatternInvalid(ValueError):
    """An expression that RE2 doesn't take, or whose program is too large."""


class Pattern:
    """A compiled expression. ``size`` is the number of its program's instructions."""

    __slots__ = ("_search", "size")

    def __init__(self, compiled: Any) -> None:
        self._search = compiled.search
        self.size: int = compiled.programsize

    def search(self, text: str) -> bool:
        """Whether it matches anywhere in ``text``; at worst ``size`` times its length instructions."""
        try:
            return self._search(text) is not None
        except UnicodeEncodeError:
            # A lone surrogate, which is no character.
            return self._search(text.encode("utf-8", "replace").decode()) is not None


class Budget:
    """The expressions of one evaluation: a bounded number of steps for all of them together."""

    __slots__ = ("_compiled", "_left", "fault")

    def __init__(self) -> None:
        self._left = _MAX_STEPS
        self._compiled: set[str] = set()
        # Why what `matches` has answered means nothing. An evaluator may read over an exception.
        self.fault: str | None = None

    def matches(self, text: str, pattern: str) -> bool:
        """CEL's function; false, with a `fault`, for what is no expression and when the steps are used up."""
        if self.fault is not None:
            return False
        if not isinstance(text, str) or not isinstance(pattern, str):
            self.fault = "matches takes two texts"
            return False
        try:
            compiled = compile(pattern)
        except PatternInvalid as error:
            self.fault = f"{pattern[:100]!r} is not a regular expression ({error})"
            return False
        if pattern not in self._compiled:
            self._compiled.add(pattern)
            self._left -= compiled.size * _COMPILING
        self._left -= compiled.size * len(text) + _CALLING
        if self._left < 0:
            self.fault = "its regular expressions would take too long"
            return False
        return compiled.search(text)


@lru_cache(maxsize=512)
def compile(pattern: str) -> Pattern:
    """Compile ``pattern``. Raises PatternInvalid."""
    # Imported with the first expression: most registries have none.
    import re2

    if len(pattern) > MAX_PATTERN:
        raise PatternInvalid(f"an expression has at most {MAX_PATTERN} characters")
    if "{" in _REPETITION.sub("", _ESCAPED.sub("", pattern)):
        # RE2 would look for the characters themselves, where other engines repeat.
        raise PatternInvalid("a brace begins no repetition such as {2} or {0,5}; write \\{ for the character")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        return Pattern(re2.compile(pattern, options))
    except UnicodeEncodeError:
        raise PatternInvalid("a lone surrogate is no character") from None
    except re2.error as error:
        said = error.args[0] if error.args else ""
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise PatternInvalid(_explain(text)) from None


def _explain(text: str) -> str:
    if "invalid perl operator" in text or "invalid escape sequence" in text:
        return f"{text}: it is of a linear-time engine (RE2), without look-around and back references"
    if "too large" in text or "repetition size" in text:
        return f"{text}: it would take too long; write smaller repetitions"
    return text
