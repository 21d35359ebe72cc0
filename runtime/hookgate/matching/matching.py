"""Which hooks run: compiled tool filters, matchers and conditions.

All three are compiled once, when a registry is loaded (runtime) or saved (portal), and raise
`MatchError` there. CEL is imported with the first condition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, Final

from hookgate.matching import celmodule, patterns, work

MAX_INPUT: Final = 256 * 1024
MAX_EXPRESSION: Final = 4096
MAX_PATTERN: Final = patterns.MAX_PATTERN
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

_SMALL: Final = frozenset({int, float, bool, type(None)})
# An expression names at most some hundred fields: that many texts of this size need no adding up.
_TINY: Final = 256
# Asking Mapping, an abstract class, costs more than everything else here.
_PLAIN: Final = _SMALL | {list, tuple, set, frozenset}
# What the evaluator knows our `matches` by: under the same name its own comes first.
_MATCHES: Final = "_matches"
_LIST_MATCHER = re.compile(r"[A-Za-z0-9_|]+\Z")
_TEXT_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_ODD_TEXT = re.compile(r"\'\'\'|\"\"\"|//|[rR][bB]?[\'\"]")
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
    translated = _translate_glob(pattern)
    if "(?!)" in translated:
        # A guard that matches nothing would be off without anybody knowing.
        raise MatchError(f"the tool filter {pattern!r} has a range such as [z-a], which matches nothing")
    try:
        match = re.compile(translated, re.DOTALL).match
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
    anything else a regular expression (RE2) that may match anywhere. Raises MatchError.
    """
    if matcher is None or matcher in ("", "*"):
        return None
    if not isinstance(matcher, str) or len(matcher) > MAX_PATTERN:
        raise MatchError(f"a matcher is a text of at most {MAX_PATTERN} characters")
    if _LIST_MATCHER.match(matcher):
        return frozenset(matcher.split("|")).__contains__
    try:
        compiled = patterns.compile(matcher)
    except patterns.PatternInvalid as error:
        raise MatchError(f"the matcher {matcher!r} is not a regular expression ({error})") from None
    if compiled.size > patterns.MAX_MATCHER:
        raise MatchError(f"the matcher {matcher!r} could take too long; write smaller repetitions or classes")
    return lambda subject: compiled.search(subject[: patterns.MAX_SUBJECT])


class Condition:
    """A compiled ``when``. ``names`` are the variables that it reads, ``fields`` the keys that it reads of
    them; None for a variable that it reads as a whole. ``outline`` says what it walks, ``walks`` what the
    portal says of macros within macros."""

    __slots__ = ("_execute", "_reads", "fields", "names", "outline", "source", "walks")

    def __init__(
        self,
        source: str,
        fields: Mapping[str, frozenset[str] | None],
        execute: Callable[[dict[str, Any]], Any],
        walks: work.Walks | None = None,
    ) -> None:
        self.outline = work.outline(source, VARIABLES)
        self.walks = walks
        self.source = source
        self.names = frozenset(fields)
        self.fields = fields
        self._reads = tuple(fields.items())
        self._execute = execute

    def evaluate(self, variables: Mapping[str, Any]) -> bool:
        """The verdict over ``variables`` (missing ones read as null).

        Raises MatchError when the expression fails, isn't boolean, would be too much work (`hookgate.matching.work`),
        or what it reads exceeds 256 KiB.
        """
        bound, tiny = {}, True
        for name, fields in self._reads:
            value = variables.get(name)
            # The evaluator converts whatever it is handed: 256 KiB of arguments for the sake of one number.
            if fields is not None and type(value) is dict:
                value = {field: value[field] for field in fields if field in value}
                for part in value.values():
                    tiny = tiny and (type(part) in _SMALL or (type(part) is str and len(part) < _TINY))
            else:
                tiny = False
            bound[name] = value
        if not tiny:
            _check_size(bound)
        if not self.outline.simple:
            try:
                work.check(self.outline, self.walks, bound, variables.get("args"))
            except work.TooMuchWork as error:
                raise MatchError(str(error)) from None
        try:
            verdict = self._execute(bound)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  (the evaluator's panics derive from BaseException)
            raise MatchError(f"the condition failed: {_first_line(error)}") from None
        if verdict is True or verdict is False:
            return verdict
        raise MatchError(f"the condition must be true or false, not {type(verdict).__name__}")


def compile_condition(source: str, walks: work.Walks | None = None) -> Condition:
    """Compile a CEL expression over `VARIABLES`. Raises MatchError for syntax errors and for names and
    functions that don't exist; the evaluator itself would read over some of those at run time.

    ``walks`` are the collections that its macros within macros walk: ``(("args.to", "args.blocked"),)``.
    """
    if not isinstance(source, str) or not source.strip():
        raise MatchError("a condition is a CEL expression such as args.amount >= 50000")
    if len(source) > MAX_EXPRESSION:
        raise MatchError(f"a condition has at most {MAX_EXPRESSION} characters")
    return _compile(source, walks)


@lru_cache(maxsize=1024)
def _compile(source: str, walks: work.Walks | None) -> Condition:
    # A registry that is loaded again brings mostly the conditions of the one before.
    cel = celmodule.load()
    try:
        program = cel.compile(work.rename(source, "matches", _MATCHES))
        references = program.references()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  (the parser's panics derive from BaseException)
        text = _first_line(error).replace(_MATCHES, "matches")
        raise MatchError(f"the condition does not compile: {text}") from None
    local = frozenset(_MACRO_VARIABLE.findall(_TEXT_LITERAL.sub("''", source)))
    read = frozenset(references["variables"])
    unknown = sorted(read - VARIABLES - local)
    if unknown:
        known = ", ".join(sorted(VARIABLES))
        raise MatchError(f"unknown variable {unknown[0]!r}; there are {known}")
    ours = {_MATCHES} if _MATCHES not in _TEXT_LITERAL.sub("''", source) else set()
    called = [name for name in references["functions"] if name.isidentifier()]
    missing = sorted(name for name in called if name not in FUNCTIONS | ours)
    if missing:
        raise MatchError(f"unknown function {missing[0]!r}")
    execute = _with_patterns(program) if _MATCHES in references["functions"] else program.execute
    fields = {name: _find_fields(source, name) for name in read & VARIABLES}
    return Condition(source, fields, execute, walks)


def _with_patterns(program: Any) -> Callable[[dict[str, Any]], Any]:
    """The evaluator with a ``matches`` of ours: its own compiles the expression at every use, and takes 0.1 s for
    some."""
    cel = celmodule.load()

    def execute(bound: dict[str, Any]) -> Any:
        budget = patterns.Budget()
        context = cel.Context(bound)
        context.add_function(_MATCHES, budget.matches)
        verdict = program.execute(context)
        if budget.fault is not None:
            raise MatchError(budget.fault)
        return verdict

    return execute


def _find_fields(source: str, name: str) -> frozenset[str] | None:
    """The fields that an expression reads of a variable, when it does nothing else with it; else None.

    Whatever could be read in another way is read as "else": a raw or triple-quoted text, a comment, a
    variable of a macro, an index, a method.
    """
    if _ODD_TEXT.search(source):
        return None
    plain = _TEXT_LITERAL.sub("''", source)
    found = re.findall(
        rf"(\.?)\s*(?<![A-Za-z0-9_]){name}(?![A-Za-z0-9_])(?:\s*\.\s*([A-Za-z_]\w*)(?!\w)(?!\s*\())?", plain
    )
    if not found or any(before or not field for before, field in found):
        return None
    return frozenset(field for _, field in found)


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:300]


def _check_size(bound: Mapping[str, Any]) -> None:
    """Bound what is handed to the evaluator: it converts every bound variable as a whole, and
    recursively, so that a deep or cyclic tool result would exhaust its stack."""
    left = MAX_INPUT
    level: list[Any] = [bound]
    for _ in range(_MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str | bytes):
                left -= len(item)
            elif isinstance(item, dict) or (type(item) not in _PLAIN and isinstance(item, Mapping)):
                left -= sum([len(name) for name in item if isinstance(name, str)]) + len(item)
                below += _without_small(item.values())
            elif isinstance(item, list | tuple | set | frozenset):
                left -= len(item)
                below += _without_small(item)
            if left < 0:
                raise MatchError(f"what the condition reads exceeds {MAX_INPUT // 1024} KiB")
        if not below:
            return
        level = below
    raise MatchError("what the condition reads is nested too deep")


def _without_small(items: Collection[Any]) -> Collection[Any]:
    """Nothing where all of ``items`` are numbers and the like, which are counted by their number alone."""
    return () if _SMALL.issuperset(map(type, items)) else items
