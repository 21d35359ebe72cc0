"""A condition's names and comparisons against the schema of what it is asked over."""

from pathlib import Path
from typing import Any

import pytest

from hooks_app.conditions import fitting
from tests.config import documents

PAY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "amount": {"type": "number"},
        "currency": {"enum": ["EUR", "USD"]},
        "payee": {
            "type": "object",
            "properties": {
                "iban": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
        },
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"qty": {"type": "integer"}},
                "additionalProperties": False,
            },
        },
        "free": {"type": "object"},
        "open": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
        "typed": {"type": "object", "properties": {}, "additionalProperties": {"type": "number"}},
        "maybe": {"type": ["string", "null"]},
        "ref": {"$ref": "#/$defs/flags"},
        "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
        "both": {"allOf": [{"type": "object", "properties": {"x": _}} for _ in ({"type": "string"},)]},
        "loop": {"$ref": "#/$defs/loop"},
    },
    "$defs": {
        "flags": {"type": "object", "properties": {"urgent": {"type": "boolean"}}},
        "loop": {"$ref": "#/$defs/loop"},
    },
}

WRONG = {
    'args.amount >= "1000"': "args.amount is a number, \"1000\" is a text: >= can't compare them",
    "args.amont > 5": "args.amont: there is no such field; did you mean amount?",
    "has(args.amont) && args.amount > 1": "did you mean amount?",
    'args["amont"] > 1': "did you mean amount?",
    '"amont" in args': "did you mean amount?",
    'args.payee.ibn == "x"': "args.payee.ibn: there is no such field; did you mean iban?",
    'args.currency == "ERU"': 'args.currency is never "ERU"; did you mean EUR?',
    '"ERU" != args.currency': "did you mean EUR?",
    'args.currency in ["EUR", "UDS"]': "did you mean USD?",
    "args.lines.exists(l, l.qtty > 1)": "l.qtty: there is no such field; did you mean qty?",
    'args.lines.all(l, l.qty > "1")': "l.qty is a number",
    "args.lines[0].qt == 1": "did you mean qty?",
    'args.lines.map(l, l.qty).exists(q, q == "x")': "q is a number",
    "args.ref.urgnt": "did you mean urgent?",
    "args.either == true": "args.either is a number or a text, true is true or false",
    'args.typed.any == "x"': "args.typed.any is a number",
    "args.both.y == 'x'": "there are x",
    "args.amount.x == 1": "args.amount is a number and has no fields",
    "args.amount.exists(i, i == 1)": "exists walks a list",
    'args.amount.contains("x")': "contains wants a text",
    "args.payee.tags.exists(t, t == 5)": "t is a text",
    "5 in args.payee.tags": "holds a text",
    "args.exists(k, k == 5)": "k is a text",
    'size(args.lines) > "2"': "size(args.lines) is a number",
    'tool.nam == "x"': "did you mean name?",
    'event == "PreTolUse"': "did you mean PreToolUse",
    'surface == "chta"': "did you mean chat?",
    'user.mail == "x"': "did you mean email?",
}  # fmt: skip


@pytest.mark.parametrize("source", WRONG)
def test_what_can_not_be_right_is_told_with_the_nearest_name(source: str) -> None:
    [text] = fitting.check(source, {"erp__pay": PAY})
    assert WRONG[source] in text


RIGHT = [
    "args.amount >= 1000", "args.amount == 5.0", "args.free.anything == 1", "args.open.b == 1", "args.maybe == null",
    "args.maybe == 'x'", "args.either == 5", "args.either == 'x'", "args.payee == null", "metadata.x == 1",
    "result.y == 2", "args.lines.filter(l, l.qty > 1).size() > 0", "args.payee.tags[0] == 'x'", "args[tool.name] == 1",
    "'x' in args.payee.tags", "args.loop.deep == 1", "args.typed.any > 1", "agent.slug == 'x' && surface == 'chat'",
    "args.lines.exists(args, args.qty > 1)", "string(args.amount) == '5'", "args.currency.startsWith('E')",
    "args.payee.tags.exists(t, t in ['a', 'b'])", "error == 'x'", "args.open.a.contains('x')", "(1 + 1) == '2'",
]  # fmt: skip


@pytest.mark.parametrize("source", RIGHT)
def test_what_fits_or_is_not_described_passes(source: str) -> None:
    assert fitting.check(source, {"erp__pay": PAY}) == []


def test_a_name_that_some_tool_may_have_passes_and_a_comparison_names_its_tool() -> None:
    text = {"type": "object", "properties": {"amount": {"type": "string"}, "note": {"type": "string"}}}
    assert fitting.check("args.note == 'x'", {"a": PAY, "b": text}) == []
    assert fitting.check("args.amont == 1", {"a": PAY, "b": None}) == []
    assert fitting.check("args.amount > 5", {"a": PAY, "b": text}) == [
        "args.amount is a text, 5 is a number: > can't compare them (of b)"
    ]
    assert fitting.check("tool.name == 'a' && args.amount > 5", {"a": PAY, "b": text}) == []


@pytest.mark.parametrize(
    "schema",
    [
        True,
        [],
        "x",
        {"type": 5},
        {"properties": []},
        {"$ref": "http://elsewhere"},
        {"anyOf": "x"},
        {"enum": 1},
    ],
)
def test_a_schema_that_is_none_says_nothing(schema: Any) -> None:
    assert fitting.check("args.x == 'y' && args.z.exists(i, i > 1)", {"a": schema}) == []


@pytest.mark.django_db
def test_it_is_a_warning_at_its_place_wherever_hooks_are_declared(tmp_path: Path) -> None:
    hooks = {
        "class_hooks": [
            {"name": "approval_gate", "tool_filter": "erp__pay", "when": "args.amont > 5"},
            {"name": "result_truncate", "tool_filter": "erp__*", "when": 'args.amount >= "1000"'},
            {"name": "session_context", "when": "args.amont > 5"},
        ],
        "events": {
            "PreToolUse": [
                {"matcher": "erp__pay", "hooks": [{"type": "python", "target": "acme:guard"}]},
            ]
        },
    }
    actions = [{"name": "pay", "schema": PAY}, {"name": "list"}]
    document = documents.small(
        connectors=[{"slug": "erp", "actions": actions}], agents=[{"slug": "buyer", "hooks": hooks}]
    )
    ended = documents.apply(tmp_path, document)
    at = "organizations[0].agents[0].hooks.class_hooks"
    assert ended.code == 0
    assert ended.err == [
        f"{at}[0].when: warning: args.amont: there is no such field; did you mean amount?",
        f'{at}[1].when: warning: args.amount is a number, "1000" is a text: >= can\'t compare them (of erp__pay)',
    ]
