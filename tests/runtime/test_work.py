"""A condition's work is bounded before it is evaluated: nothing can interrupt it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hookgate.matching import patterns, work
from hookgate.matching.matching import VARIABLES, MatchError, compile_condition

NESTED = "args.to.exists(i, args.blocked.exists(b, b == i))"
WALKS = (("args.to", "args.blocked"),)


def texts(count: int, length: int = 1, letter: str = "a") -> list[str]:
    return [letter * length] * count


def judge(source: str, args: dict[str, Any], walks: work.Walks | None = None) -> bool:
    """The verdict, within a bounded time of the processor, whatever it is."""
    condition = compile_condition(source, walks)
    began = time.process_time()
    try:
        return condition.evaluate({"args": args})
    finally:
        assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("to", "blocked", "length", "judged"),
    [
        (1000, 999, 1, True),
        (1001, 1000, 1, False),
        (100, 100, 100, True),
        (100, 100, 101, False),
        (10, 60_000, 1, True),
        (0, 20_000, 5, True),
        (1, 1, 200_000, True),
    ],
)
def test_the_product_of_sizes_and_longest_text_is_the_bound(
    to: int, blocked: int, length: int, judged: bool
) -> None:
    args = {"to": texts(to), "blocked": texts(blocked, length, "b"), "body": "x" * 10_000}
    if judged:
        assert judge(NESTED, args, WALKS) is False
    else:
        with pytest.raises(MatchError, match=r"would take too long: 1,0[01]\d,\d+ steps, at most 1,000,000"):
            judge(NESTED, args, WALKS)


def test_without_walks_the_arguments_size_stands_in() -> None:
    assert judge(NESTED, {"to": texts(50), "blocked": texts(50)}) is True
    with pytest.raises(MatchError, match="too long"):
        judge(NESTED, {"to": texts(5), "blocked": texts(5), "body": "x" * 1000})
    # Macros one after the other are not nested, and nobody has to say what they walk.
    beside = "args.to.exists(i, i == 'x') || args.to.map(i, i + 'y').exists(j, j == 'x')"
    assert judge(beside, {"to": texts(400), "body": "x" * 100_000}) is False


def test_the_attack_of_24_kilobytes_is_refused_at_once() -> None:
    args = {"to": [f"u{i}" for i in range(2400)], "blocked": [f"v{i}" for i in range(2400)]}
    for walks in (None, WALKS):
        with pytest.raises(MatchError, match="too long"):
            judge(NESTED, args, walks)


DEAR: dict[str, dict[str, Any]] = {
    # A list is copied for each item that `map` and `filter` add.
    "args.a.filter(i, true).size() > 0": {"a": texts(40_000)},
    "args.a.map(i, i).size() > 0": {"a": texts(20_000)},
    # `in`, `contains` and comparisons walk as well.
    "args.a.exists(i, i in args.b)": {"a": texts(10_000), "b": texts(10_000, letter="b")},
    "args.a.exists(i, args.text.contains(i))": {"a": texts(20_000, letter="b"), "text": "a" * 100_000},
    "args.a.exists(i, args.b != args.c)": {"a": texts(9_000), "b": list(range(9_000)), "c": list(range(9_000))},
    "(args.a + args.a).exists(i, i in args.b)": {"a": texts(9_000), "b": texts(9_000, letter="b")},
    "args['a'].exists(i, i in args['b'])": {"a": texts(9_000), "b": texts(9_000, letter="b")},
    "args.all(k, args.a.exists(i, i == k))": {"a": texts(2000), **{f"k{i}": 1 for i in range(2000)}},
    # Texts that grow.
    "args.a" + ".map(i, i + i)" * 40 + ".size() > 0": {"a": ["aaaaaaaa"]},
    "args.a.map(i, [i, i])" + ".map(i, i + i)" * 30 + ".size() > 0": {"a": ["aaaaaaaa"]},
    "args.a.map(i, args.text + i).size() > 9": {"a": texts(2000), "text": "x" * 100_000},
    "(" + "+".join(["args.text"] * 400) + ").size() > 0": {"text": "x" * 250_000},
    # Long bodies.
    "args.a.exists(i, " + " || ".join(["i == 'b'"] * 300) + ")": {"a": texts(40_000)},
    # Regular expressions: made anew, or with programs as long as the text.
    "args.a.all(i, args.text.matches(i))": {"a": [f"(\\w{{1,{n}}}){{1,9}}x" for n in range(100)], "text": "a" * 9_000},
    "args.text.matches('(\\\\w{1,100}){1,9}x')": {"text": "a" * 250_000},
    "args.a.all(i, i.matches('^[\\\\pL\\\\pN]{1,64}$'))": {"a": texts(40_000)},
    "args.a.exists(i, args.b.exists(j, args.c.exists(k, k == i + j)))": {key: texts(30) for key in "abc"},
}  # fmt: skip


@pytest.mark.parametrize("source", DEAR)
def test_dear_ones_are_refused_before_or_soon(source: str) -> None:
    with pytest.raises(MatchError, match="too long"):
        judge(source, DEAR[source])


PLAIN: dict[str, dict[str, Any]] = {
    "args.amount >= 50000": {"amount": 1, "body": "x" * 200_000},
    "args.to.exists(i, i.endsWith('@rival.test'))": {"to": texts(10_000, 20)},
    "args.to.all(i, i.matches('^[a-z]+[0-9]$'))": {"to": texts(5000, 20)},
    "args.items.filter(i, i.qty > 5).exists(i, i.name == args.name)": {
        "items": [{"qty": 1, "name": "pen", "note": "x" * 50}] * 500,
        "name": "pencil",
    },
    "args.items.map(i, i.price * i.qty).exists(x, x > 500)": {"items": [{"price": 3, "qty": 4}] * 500},
    "args.a + args.b + args.c > 10": {"a": 1, "b": 2, "c": 3},
    "['eur', 'usd'].exists(c, c == args.currency)": {"currency": "krw"},
    "args.to.exists(i, i in args.blocked)": {"to": texts(50, 20), "blocked": texts(500, 30, "b")},
    "args.text.matches('(a+)+b')": {"text": "a" * 200_000},
    "args.text.matches(args.pattern)": {"text": "a" * 200_000, "pattern": "(a|a)*b"},
}


@pytest.mark.parametrize("source", PLAIN)
def test_what_people_write_is_evaluated(source: str) -> None:
    assert judge(source, PLAIN[source]) is False


@pytest.mark.parametrize(
    ("member", "size"),
    [
        ("args.to", 2),
        ("args.to + args.more", 5),
        ("7", 7),
        ("args.orders[].items", 4),
        ('args["odd key"].list', 1),
        ("args.by_day[]", 3),
        ("args.missing", 0),
        ("args.text", 0),
    ],
)
def test_members_of_walks(member: str, size: int) -> None:
    args = {
        "to": [1, 2],
        "more": [1, 2, 3],
        "orders": [{"items": [1]}, {"items": [1, 2, 3, 4]}, {}],
        "odd key": {"list": [1]},
        "by_day": {"mon": [1, 2, 3], "tue": []},
        "text": "abc",
    }
    condition = compile_condition(NESTED, ((member, "1000"),))
    assert work._Data({"args": args}).product((member,)) == size
    assert condition.walks == ((member, "1000"),)


def test_a_member_that_nobody_understands_counts_as_everything() -> None:
    args = {"to": texts(3), "blocked": texts(3), "body": "x" * 1001}
    odd = "args.all(k, args.blocked.exists(b, b == k))"
    with pytest.raises(MatchError, match="too long"):
        judge(odd, args, (("?", "args.$"),))


@pytest.mark.parametrize(
    ("source", "depth"),
    [
        ("args.a > 1", 0),
        ("args.a.exists(i, i > 1)", 1),
        ("args.a.filter(i, i > 1).exists(j, j > 2)", 1),
        ("args.a.exists(i, args.b.exists(j, j == i))", 2),
        ("args.a.exists(i, size(args.b.filter(j, j == i)) > 0)", 2),
        ("args.a.exists(i, i == '.exists(x, ')", 1),
        ("args.a == r'\\' && args.b.all(i, i == '\\').all(j, j')", 1),
        ("args.a.exists(i, // .exists(x, y\n i == 1)", 1),
        ("args . a . exists ( i , args.b\n.exists(j, true))", 2),
        ("args.exists == 1 && exists > 2", 0),
    ],
)
def test_how_deep_macros_are_nested_is_read_off_the_words(source: str, depth: int) -> None:
    assert work.outline(source, VARIABLES).depth == depth


def test_an_expression_that_is_none_is_told_and_not_read_over() -> None:
    for source in ("args.text.matches(args.pattern)", "true || args.text.matches(args.pattern)"):
        condition = compile_condition(source)
        args = {"text": "a", "pattern": "(?=a)b"}
        if source.startswith("args"):
            with pytest.raises(MatchError, match="linear-time engine"):
                condition.evaluate({"args": args})
    # One that is met in a chain of conditions counts, whatever the chain would have made of an error.
    with pytest.raises(MatchError, match="is not a regular expression"):
        judge("args.to.all(i, i.matches(args.pattern))", {"to": texts(3), "pattern": "a("})


def test_matches_is_our_own_and_nobody_may_name_it() -> None:
    assert compile_condition("'matches(' == args.x && args.x.matches('matches[(]')").evaluate(
        {"args": {"x": "matches("}}
    )
    with pytest.raises(MatchError, match="unknown function"):
        compile_condition("args.x._matches('a')")


def test_an_expressions_program_is_bounded() -> None:
    with pytest.raises(patterns.PatternInvalid, match="smaller repetitions"):
        patterns.compile(r"(\pL{1,100}){1,9}")
    assert patterns.compile("a\ud800?".replace("\ud800?", "")).search("b\ud800a")
    with pytest.raises(patterns.PatternInvalid):
        patterns.compile("\ud800")
