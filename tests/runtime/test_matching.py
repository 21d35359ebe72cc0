"""Filters, matchers and conditions."""

from __future__ import annotations

from typing import Any

import pytest
from hookgate.matching.matching import MatchError, compile_condition, compile_matcher, compile_tool_filter


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("oa__*", ["oa__pay", "oa__"], ["OA__pay", "xoa__pay", "oa_"]),
        ("oa__pay", ["oa__pay"], ["oa__pay2", "oa__pa"]),
        ("*", ["", "x", "a\nb"], []),
        ("oa__?ay", ["oa__pay"], ["oa__ay", "oa__ppay"]),
        ("oa__[pr]*", ["oa__pay", "oa__read"], ["oa__write"]),
        ("oa__[!p]*", ["oa__read"], ["oa__pay"]),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_tool_filters(pattern: str, yes: list[str], no: list[str]) -> None:
    matches = compile_tool_filter(pattern)
    assert [name for name in yes + no if matches(name)] == yes


@pytest.mark.parametrize("pattern", ["", None, 3, "x" * 2000, "oa__[z-a]*"])
def test_a_filter_that_is_none_is_refused(pattern: Any) -> None:
    with pytest.raises(MatchError):
        compile_tool_filter(pattern)


@pytest.mark.parametrize(
    ("matcher", "yes", "no"),
    [
        ("oa__pay", ["oa__pay"], ["oa__pay2", "xoa__pay"]),
        ("a|b_1", ["a", "b_1"], ["ab", "a|b_1"]),
        ("oa__.*", ["oa__pay", "xoa__pay"], ["oa_"]),
        ("^oa__", ["oa__pay"], ["xoa__pay"]),
        ("oa-pay", ["oa-pay", "my oa-pay!"], ["oa_pay"]),
    ],
)
def test_matchers(matcher: str, yes: list[str], no: list[str]) -> None:
    matches = compile_matcher(matcher)
    assert matches is not None
    assert [name for name in yes + no if matches(name)] == yes


def test_empty_matchers_match_everything_and_a_broken_one_is_refused() -> None:
    assert [compile_matcher(text) for text in (None, "", "*")] == [None] * 3
    for broken in ("(", "a{99999999999}", "[z-a]", "x" * 2000):
        with pytest.raises(MatchError):
            compile_matcher(broken)


VALUES: dict[str, Any] = {
    "event": "PreToolUse",
    "tool": {
        "name": "oa__pay",
        "connector": "oa",
        "action": "pay",
        "writes": True,
        "requires_confirmation": False,
    },
    "args": {"amount": 60000, "part": 0.5, "items": [{"x": 1}, {"x": 9}], "note": "네", "none": None},
    "user": None,
    "agent": {"id": "1", "slug": "p", "organization": "acme"},
    "surface": "chat",
    "metadata": {"k": "v"},
}


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("args.amount >= 50000", True),
        ("args.amount >= 60000.5", False),
        ("args.part < 1", True),
        ("tool.writes && !tool.requires_confirmation", True),
        ("user == null", True),
        ("args.items.exists(i, i.x > 5)", True),
        ("args.items.all(args, args.x > 5)", False),
        ("args.items.filter(i, i.x > 5).size() == 1", True),
        ("has(args.missing)", False),
        ("has(args.missing) && args.missing > 1", False),
        ("args.note == '네'", True),
        ("args.none == null", True),
        ("tool.name.startsWith('oa__') && tool.name.matches('p.y$')", True),
        ("event in ['PreToolUse', 'Stop'] && surface != 'eval'", True),
        ("metadata['k'] == \"the variable unknown, in a text\"", False),
        ("result == null && error == null", True),
    ],
)
def test_conditions(source: str, verdict: bool) -> None:
    assert compile_condition(source).evaluate(VALUES) is verdict


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("args.amount >", "does not compile"),
        ("", "CEL expression"),
        (None, "CEL expression"),
        ("amount > 5", "unknown variable 'amount'"),
        ("amount > 5 || true", "unknown variable 'amount'"),
        ("lower(args.note) == 'x'", "unknown function 'lower'"),
        ("args.note.lowerAscii() == 'x' || true", "unknown function 'lowerAscii'"),
        ("true || " * 1000 + "true", "at most 4096"),
        ("(" * 2000 + "1" + ")" * 2000, "does not compile"),
    ],
)
def test_conditions_that_can_not_be_saved(source: Any, message: str) -> None:
    with pytest.raises(MatchError, match=message):
        compile_condition(source)


def cyclic() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("source", "values", "message"),
    [
        ("args.missing > 1", {"args": {}}, "failed"),
        ("args.amount", {"args": {"amount": 1}}, "must be true or false, not int"),
        ("args.amount > 1", {"args": {"amount": "x"}}, "failed"),
        ("tool.writes", {"tool": None}, "failed"),
        ("args.x == 'a'", {"args": {"x": "a" * 300_000}}, "256 KiB"),
        ("size(args) > 0", {"args": {"a" * 300_000: 1}}, "256 KiB"),
        ("size(result) > 0", {"result": [0] * 300_000}, "256 KiB"),
        ("result == null", {"result": cyclic()}, "nested too deep"),
        ("result == null", {"result": object()}, "failed"),
    ],
)
def test_conditions_that_can_not_be_evaluated(source: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(MatchError, match=message):
        compile_condition(source).evaluate(values)


def test_only_what_an_expression_names_is_bound() -> None:
    condition = compile_condition("args.amount > 1")
    assert condition.names == {"args"}
    assert condition.evaluate({"args": {"amount": 2}, "result": cyclic()})
