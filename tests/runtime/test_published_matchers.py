"""Matchers that an earlier release published go on; none of them may run away."""

from typing import Any

import pytest
from hookgate.matching.matching import MatchError, compile_matcher
from hookgate.matching.published import compile_published_matcher
from hookgate.registry.manifest import ManifestInvalid, parse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.documents import handler, manifest
from tests.runtime.test_patterns import alarm

CAP = "acme.hooks:cap"


@pytest.mark.parametrize(
    ("matcher", "yes", "no"),
    [
        ("^(?!oa__).*", ["crm__read"], ["oa__pay"]),
        ("(?=.*pay)oa.*", ["oa__pay"], ["oa__read", "crm__pay"]),
        (r"^(\w)\1", ["aab"], ["ab"]),
        ("(?<=oa__)pay$", ["oa__pay"], ["crm__pay"]),
    ],
)
def test_what_was_published_goes_on(matcher: str, yes: list[str], no: list[str]) -> None:
    with pytest.raises(MatchError):
        compile_matcher(matcher)
    parsed = parse(manifest(handler(CAP, matcher=matcher)))
    matches = parsed.hooks[0].matches_subject
    assert matches is not None
    assert [name for name in yes + no if matches(name)] == yes


def test_as_many_characters_are_looked_at_as_then() -> None:
    matches = compile_published_matcher("(?<=x)pay")
    assert matches is not None
    assert matches("a" * 196 + "xpay")
    assert not matches("a" * 197 + "xpay")


@pytest.mark.parametrize(
    "matcher",
    [
        "(",
        "(?=(a+)+b)",
        r"(a*)*\1b",
        "(?=x)(a|aa)*b",
        "(?!a)" + "a*" * 9 + "b",
        "(?=a)" + "x" * 2000,
        "(?P<a>",
    ],
)
def test_what_could_take_forever_or_is_none_is_still_refused(matcher: str) -> None:
    with pytest.raises(ManifestInvalid):
        parse(manifest(handler(CAP, matcher=matcher)))


PIECES: Any = st.sampled_from(
    ["a", "b", "a*", "a+", "(a|b)", "(?=a)", "(?!b)", r"\1", "(a)", "a{2,9}", "(a+)+", "(b|a?)*"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=9).map("".join))
def test_none_of_them_runs_away(pattern: str) -> None:
    try:
        matches = compile_published_matcher(pattern)
    except MatchError:
        return
    if matches is None:
        return
    with alarm():
        for subject in ("a" * 200, "ab" * 100, "a" * 199 + "c"):
            matches(subject)
