"""Which hooks run: compiled tool filters, matchers and conditions.

All three are compiled once, when a registry is loaded (runtime) or saved (portal), and raise
`MatchError` there. CEL is imported with the first condition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

MAX_INPUT: Final = 256 * 1024
MAX_EXPRESSION: Final = 4096
MAX_PATTERN: Final = 1024
MAX_SUBJECT: Final = 512
_MAX_DEPTH: Final = 64

VARIABLES: Final = frozenset(
    {"event", "tool", "args", "result", "error", "agent", "user", "surface", "metadata"}
)
FUNCTIONS: Final = frozenset(
    {
        "size", "int", "uint", "double", "string", "bytes", "type", "dyn", "timestamp", "duration",
        "contains", "startsWith", "endsWith", "matches",
        "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear",
        "getHours", "getMinutes", "getSeconds", "getMilliseconds",
    }
)  # fmt: skip

_LIST_MATCHER = re.compile(r"[A-Za-z0-9_|]+\Z")
_TEXT_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_MACRO_VARIABLE = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")

Predicate = Callable[[str], bool]


class MatchError(ValueError):
    """A filter, matcher or condition that does not compile, or a condition that can't be evaluated."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def compile_tool_filter(pattern: str) -> Predicate:
    """A case-sensitive glob (``*``, ``?``, ``[…]``) over whole tool names. Raises MatchError."""
    if not isinstance(pattern, str) or not pattern:
        raise MatchError("a tool filter is a glob such as oa__*; leave it out to match every tool")
    if len(pattern) > MAX_PATTERN:
        raise MatchError(f"a tool filter has at most {MAX_PATTERN} characters")
    if not any(character in pattern for character in "*?["):
        return pattern.__eq__
    try:
        match = re.compile(_translate_glob(pattern), re.DOTALL).match
    except re.error as error:
        raise MatchError(f"the tool filter {pattern!r} is not a glob ({error})") from None
    return lambda subject: match(subject) is not None


def _translate_glob(pattern: str) -> str:
    # fnmatch.translate handles `[!…]`, ranges and unclosed brackets as shells do, case-sensitively.
    import fnmatch

    return fnmatch.translate(pattern)


def compile_matcher(matcher: str | None) -> Predicate | None:
    """A matcher of an event handler; None when it matches everything.

    Empty or ``*`` is everything; letters, digits, ``_`` and ``|`` an exact name or a list of them;
    anything else a regular expression that may match anywhere. Raises MatchError.
    """
    if matcher is None or matcher in ("", "*"):
        return None
    if not isinstance(matcher, str) or len(matcher) > MAX_PATTERN:
        raise MatchError(f"a matcher is a text of at most {MAX_PATTERN} characters")
    if _LIST_MATCHER.match(matcher):
        return frozenset(matcher.split("|")).__contains__
    try:
        search = re.compile(matcher).search
    except (re.error, RecursionError, OverflowError) as error:
        raise MatchError(f"the matcher {matcher!r} is not a regular expression ({error})") from None
    # A subject may be invented by a model; a bounded one keeps a slow pattern bounded too.
    return lambda subject: search(subject[:MAX_SUBJECT]) is not None


class Condition:
    """A compiled ``when``. ``names`` are the variables that it reads."""

    __slots__ = ("_execute", "names", "source")

    def __init__(self, source: str, names: frozenset[str], execute: Callable[[dict[str, Any]], Any]) -> None:
        self.source = source
        self.names = names
        self._execute = execute

    def evaluate(self, variables: Mapping[str, Any]) -> bool:
        """The verdict over ``variables`` (missing ones read as null).

        Raises MatchError when the expression fails, isn't boolean, or its input exceeds 256 KiB.
        """
        bound = {name: variables.get(name) for name in self.names}
        _check_size(bound)
        try:
            verdict = self._execute(bound)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  (the evaluator's panics derive from BaseException)
            raise MatchError(f"the condition failed: {_first_line(error)}") from None
        if not isinstance(verdict, bool):
            raise MatchError(f"the condition must be true or false, not {type(verdict).__name__}")
        return verdict


def compile_condition(source: str) -> Condition:
    """Compile a CEL expression over `VARIABLES`. Raises MatchError for syntax errors and for names and
    functions that don't exist; the evaluator itself would read over some of those at run time."""
    if not isinstance(source, str) or not source.strip():
        raise MatchError("a condition is a CEL expression such as args.amount >= 50000")
    if len(source) > MAX_EXPRESSION:
        raise MatchError(f"a condition has at most {MAX_EXPRESSION} characters")
    import cel

    try:
        program = cel.compile(source)
        references = program.references()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  (the parser's panics derive from BaseException)
        raise MatchError(f"the condition does not compile: {_first_line(error)}") from None
    local = frozenset(_MACRO_VARIABLE.findall(_TEXT_LITERAL.sub("''", source)))
    read = frozenset(references["variables"])
    unknown = sorted(read - VARIABLES - local)
    if unknown:
        known = ", ".join(sorted(VARIABLES))
        raise MatchError(f"unknown variable {unknown[0]!r}; there are {known}")
    missing = sorted(
        name for name in references["functions"] if name.isidentifier() and name not in FUNCTIONS
    )
    if missing:
        raise MatchError(f"unknown function {missing[0]!r}")
    return Condition(source, read & VARIABLES, program.execute)


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:300]


def _check_size(value: Any) -> None:
    """Bound what is handed to the evaluator: it converts every bound variable as a whole, and
    recursively, so that a deep or cyclic tool result would exhaust its stack."""
    left = MAX_INPUT
    level = [value]
    for _ in range(_MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str | bytes):
                left -= len(item)
            elif isinstance(item, Mapping):
                left -= sum(map(len, filter(_is_text, item))) + len(item)
                below.extend(item.values())
            elif isinstance(item, list | tuple | set | frozenset):
                left -= len(item)
                below.extend(item)
            if left < 0:
                raise MatchError(f"the condition's input exceeds {MAX_INPUT // 1024} KiB")
        if not below:
            return
        level = below
    raise MatchError("the condition's input is nested too deep")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
