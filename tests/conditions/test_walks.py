"""The collections that nested macros walk: refused when nested too deep, and served beside the condition."""

from pathlib import Path
from typing import Any

import cel
import pytest
from hookgate.matching.matching import VARIABLES, MatchError
from hookgate.matching.work import outline
from hookgate.registry import manifest

from hooks_app.conditions import parsing, walks
from hooks_app.models import Agent
from hooks_app.registry import heads
from tests import make
from tests.config import documents

NESTED = "args.to.exists(i, args.blocked.exists(b, b == i))"
DEEP = "args.a.exists(i, args.b.exists(j, args.c.exists(k, k == i + j)))"

FOUND: dict[str, list[list[str]] | None] = {
    "args.to.exists(i, i == 'x')": None,
    "args.to.filter(i, i != 'x').exists(j, j == 'y')": None,
    NESTED: [["args.to", "args.blocked"]],
    "args.orders.exists(o, o.items.exists(i, i.n > 1))": [["args.orders", "args.orders[].items"]],
    "(args.a + args.b).exists(i, ['x', 'y'].exists(j, j == i))": [["args.a + args.b", "2"]],
    "args.x.map(i, i.tags).exists(t, t.exists(u, u == 'a'))": [["args.x", "args.x[].tags"]],
    "args.x.filter(i, i.on).exists(t, t.tags.exists(u, u == 'a'))": [["args.x", "args.x[].tags"]],
    "args.m.exists(k, args.m[k].exists(j, j == 1))": [["args.m", "args.m[]"]],
    "args['a b'].exists(i, args.c.d.all(j, i != j))": [['args["a b"]', "args.c.d"]],
    "[args.a, args.b].exists(l, l.exists(i, i == 1))": [["2", "args.a + args.b"]],
    "result.rows.exists(r, r.exists(c, c == metadata.x))": [["result.rows", "result.rows[]"]],
    "args.a.exists(i, (i.x ? i.y : args.z).exists(q, q == 1))": [["args.a", "args.a[].y + args.z"]],
    "args.a.exists(i, args.b.exists(j, j == i) || args.c.exists(k, k == i))": [
        ["args.a", "args.b"],
        ["args.a", "args.c"],
    ],
    "args.a.exists(args, args.b.exists(j, j == 1))": [["args.a", "args.a[].b"]],
    "args.a.exists(i, dyn(args.b).exists(j, j == i))": [["args.a", "args.b"]],
    "{'x': args.a}.exists(k, {'x': args.a}[k].exists(j, j == k))": [["1", "args.a"]],
    "(args.x ? [args.a] : [])[0].exists(i, args.b.exists(j, i == j))": [["?", "args.b"]],
}


@pytest.mark.parametrize("source", FOUND)
def test_which_collections_are_walked(source: str) -> None:
    found = walks.find(source)
    assert (None if found is None else [list(chain) for chain in found]) == FOUND[source]


@pytest.mark.parametrize("source", [*FOUND, DEEP])
def test_the_words_and_the_tree_agree_on_how_deep_it_is(source: str) -> None:
    depth = outline(source, VARIABLES).depth
    if source == DEEP:
        assert depth == 3
        with pytest.raises(MatchError, match="nested more than 2 deep at exists"):
            walks.find(source)
    else:
        assert (depth == 2) == (FOUND[source] is not None)


SOURCES = [
    "args.amount >= 1000", "a.b[0]['x'].size() > 1", "true ? a : b ? c : d", "[1, 2,].exists(x, x in args.y)", "[]",
    "{'a': 1,}.a == 1", "{}", r"r'\' == 'x'", "'''a'b''' == \"x\"", "!(a && b) || -5 < -a.b // c", "args.inner == in_x",
    "1.5e3 > .5", "x.map(i, i > 1, i*2)", "has(args.x)", "a.b.c(1, 2)", "1u == 0x1Fu", "a==b", "-1 == - 1",
    "a < b == c", "args.true_x == nullable", "'\\u00e9\\x41\\101' == 'é'", "a\n\t&& b // end", "!!a", "--1 == 1",
    "[[1, 2], [3]].map(i, i).exists(t, t.exists(u, u == 3))", '"a\\"b" == \'a\'', "b'x' == b''",
    "timestamp('x').getFullYear() == 2020",
    " || ".join(f"a == {n}" for n in range(300)), "(" * 20 + "a" + ")" * 20, "a.exists(i, i.b.all(j, j > i.c)) && d",
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_what_the_evaluator_reads_the_grammar_reads(source: str) -> None:
    cel.compile(source)
    assert parsing.parse(source)


@pytest.mark.parametrize("source", ["a b", "a ? b", "in == 1", "a.", "(a", "a &&", "'a", "1 +"])
def test_what_neither_reads(source: str) -> None:
    with pytest.raises(MatchError):
        parsing.parse(source)


@pytest.mark.parametrize("source", ["(" * 2000, "1" + "+1" * 2000, "!" * 4000 + "a", "[" * 2000])
def test_no_text_is_too_much_for_the_grammar(source: str) -> None:
    with pytest.raises(MatchError):
        parsing.parse(source)


def hooks(when: str) -> list[Any]:
    return [
        {"name": "approval_gate", "when": when},
        {"name": "result_truncate", "when": when},
    ]


@pytest.mark.django_db
def test_the_manifest_says_what_is_walked_and_the_digest_of_others_stays(tmp_path: Path) -> None:
    def served(when: str) -> Any:
        agents = [{"slug": "buyer", "hooks": {"class_hooks": hooks(when)}}]
        assert documents.apply(tmp_path, documents.small(agents=agents)).code == 0
        return heads.head(Agent.objects.get()).revision.manifest  # type: ignore[union-attr]

    plain = served("args.to.exists(i, i == 'x')")
    assert "walks" not in str(plain)
    nested = served(NESTED)
    gate = next(hook for hook in nested["hooks"] if hook["name"] == "approval_gate")
    other = next(hook for hook in nested["hooks"] if hook["name"] == "result_truncate")
    assert gate["params"]["triggers"][0]["walks"] == [["args.to", "args.blocked"]]
    assert other["walks"] == [["args.to", "args.blocked"]]
    document = {
        **nested,
        "surface": "chat",
        "state": {"read_only": False, "halted": False, "reason": None, "until": None},
    }
    read = manifest.parse(document)
    assert read.triggers[0].condition is not None
    assert read.triggers[0].condition.walks == (("args.to", "args.blocked"),)
    assert next(hook for hook in read.hooks if hook.name == "result_truncate").condition.walks is not None  # type: ignore[union-attr]


@pytest.mark.django_db
def test_deeper_than_two_is_refused_wherever_it_is_written(tmp_path: Path) -> None:
    policy = documents.small(approval_policies=[{"slug": "payments", "when": DEEP}])
    ended = documents.apply(tmp_path, policy)
    assert ended.code == 1
    assert "organizations[0].approval_policies[0].when: macros are nested more than 2 deep" in ended.err[0]
    acme = make.organization("beta")
    agent = make.agent(acme, published=False)
    make.class_hook(agent, "approval_gate", when=DEEP)
    make.publish(agent)
    [error] = heads.head(agent).errors
    assert (error["path"], error["code"]) == ("hooks.class_hooks[0].when", "does_not_compile")


@pytest.mark.django_db
def test_the_portal_judges_a_gate_entry_as_runtimes_do() -> None:
    acme = make.organization()
    agent = make.agent(acme, published=False)
    make.class_hook(agent, "approval_gate", when=NESTED)
    make.publish(agent)
    [trigger] = heads.published(agent).manifest.triggers
    few = {"args": {"to": ["a"] * 100, "blocked": ["b"] * 100}}
    many = {"args": {"to": ["a"] * 1001, "blocked": ["b"] * 1001}}
    assert trigger.condition is not None
    assert trigger.condition.evaluate(few) is False
    with pytest.raises(MatchError):  # which asks people
        trigger.condition.evaluate(many)
