"""No expression takes long, whatever it is asked over."""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Iterator
from types import FrameType

import cel
import pytest
from hookgate.matching.matching import MatchError, compile_condition, compile_matcher, compile_tool_filter
from hypothesis import example, given, settings
from hypothesis import strategies as st

SUBJECTS = ("a" * 200, "a" * 100 + "b" * 100, "ab" * 100, "a" * 199 + "c", "")
# Each takes an engine that tries one way after the other for ever.
TRAPS = [
    "(a+)+b", "(a*)*b", "(a|a)*b", "(a|ab)+c", "(a?)*b", "(?:a+b?)+c", "(.*)*c", r"(\w+\s?)+$", "a*a*a*a*a*a*b",
    "(a|aa)" * 40 + "c", "a?" * 60 + "a" * 60 + "c", "(a?){50}a{50}c", "((((a?){3}){3}){3}){3}c",
]  # fmt: skip


@pytest.mark.parametrize(
    "pattern",
    [
        "oa__.*", "^oa__(pay|refund)_.*$", "mcp__.*__(read|write)_[a-z]+", r"^\w+__[a-z]+(_v\d+)?$",
        "(?i)PAY", "oa__(?:a|b|c|d|e|f)$", r"[*+?(]{2,3}x", r"\(\*\)", "a{2}b{3}", "(?P<x>ab){3}",
        "a|b*|c+", "[]*]+", "x{0,}", "^(?:oa|crm)__[a-z_]+$", r"\{[{]x", r"\p{Greek}{2}", *TRAPS,
    ],
)  # fmt: skip
def test_what_people_write_is_taken_and_quick(pattern: str) -> None:
    predicate = compile_matcher(pattern)
    assert predicate
    with alarm():
        for subject in ("a" * 100_000, "ab" * 50_000):
            predicate(subject)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("^(?!oa__).*", "look-around"),
        ("(?=.*pay)oa.*", "look-around"),
        ("(?<=oa__)pay", "look-around"),
        (r"(a)\1", "back references"),
        (r"(?P<x>a)(?P=x)", "RE2|syntax|invalid"),
        ("((a{1,99}){1,99}){1,99}", "smaller repetitions"),
        (r"\pL{1,64}", "too long"),
        ("x{,5}", "begins no repetition"),
        ("a{99999999999}", "begins no repetition"),
        ("a{x}", "begins no repetition"),
    ],
)
def test_what_the_engine_lacks_is_refused_and_says_why(pattern: str, reason: str) -> None:
    with pytest.raises(MatchError, match=reason):
        compile_matcher(pattern)


@contextlib.contextmanager
def alarm() -> Iterator[None]:
    """Ends an expression that runs away: the engine looks for signals now and then."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it took more than 10 s of the processor")

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, 10)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


ANOTHER_ENGINE = cel.compile("text.matches(pattern)")  # linear as well
PIECES = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", r"\w", "", "ab"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("({0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{0,9}", "{3,}", "{0,5}"])).map(
            "(?:{0[0]}){0[1]}".format
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(PIECES, st.sampled_from(["", "c", "$"]))
@example("(a|aa)" * 9, "c")
@example("a*a*a*", "c")
def test_what_is_taken_is_quick_on_the_worst_names(pattern: str, end: str) -> None:
    try:
        predicate = compile_matcher(pattern + end)
    except MatchError:
        return
    if predicate is None or re.fullmatch(r"[\w|]+", pattern + end):
        return
    with alarm():
        for subject in SUBJECTS:
            assert predicate(subject) is ANOTHER_ENGINE.execute({"text": subject, "pattern": pattern + end})


def test_globs_and_conditions_take_any_pattern_in_their_stride() -> None:
    started = time.process_time()
    assert not compile_tool_filter("*a" * 500 + "b")("a" * 512)
    for pattern in ("(a+)+b", "(a|a)*b", "(a*)*b"):
        condition = compile_condition(f"args.text.matches('{pattern}')")
        assert not condition.evaluate({"args": {"text": "a" * 200_000}})
        assert not compile_condition("args.text.matches(args.pattern)").evaluate(
            {"args": {"text": "a" * 100_000, "pattern": pattern}}
        )
    with pytest.raises(MatchError, match="smaller repetitions"):
        compile_condition("args.text.matches('((a{0,99}){0,99}){0,99}b')").evaluate({"args": {"text": "a"}})
    assert time.process_time() - started < 5
