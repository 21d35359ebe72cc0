"""Every key of a config file, at every level, with what it does not take; found by walking the published schema."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hooks_app.config import schema as config_schema
from tests.config import documents
from tests.fields import Field, Walker, drop, put, set_in

pytestmark = pytest.mark.django_db

VALUES: list[Any] = [None, True, 7, 0, -1, 1.5, 10**15, "x\ny", "", "x" * 20_001, [], ["", 7], {}, {"zzz": 1}]
FORMATS = {"date": ["2026-02-30", "2026-1-1", "20261201", "x"], "email": ["alice", "a@", "a b@acme.test"]}
ROOT = config_schema.json_schema()
WALKER = Walker(ROOT["$defs"], key="PostToolUse")
IN_PLACE_OF_HOOKS = ("organizations", 0, "agents", 0, "model_config_json")


@cache
def _base() -> str:
    return json.dumps(_written_out())


def base() -> dict[str, Any]:
    """A document that is good, for a test to spoil."""
    document: dict[str, Any] = json.loads(_base())
    return document


def _written_out() -> dict[str, Any]:
    """The contract's example with every kind of object in it, and each list's first entry written out."""
    document = documents.example()
    organization = document["organizations"][0]
    organization["members"] = organization["members"][::-1]
    organization["members"][0]["password"] = "bob-has-a-password"
    organization["channels"][0]["config"] = dict(documents.FEISHU)
    policy = organization["approval_policies"][0]
    policy |= {
        "escalate_to": {"group": "finance"},
        "escalate_after_seconds": 60,
        "stages": [{"name": "first"}],
    }
    agent = organization["agents"][0]
    agent |= {"freshness": {"max_stale_seconds": 300}, "tools": [{"name": "calculator", "redact": ["pin"]}]}
    agent |= {"fallback_channels": ["ops-feishu"], "may_delegate_to": ["procurement"]}
    agent["hooks"]["class_hooks"] = agent["hooks"]["class_hooks"][::-1]
    return document


def without_hooks() -> dict[str, Any]:
    """The same, with hooks in FIM One's spelling."""
    document = base()
    agent = document["organizations"][0]["agents"][0]
    agent["model_config_json"] = {"hooks": agent.pop("hooks")}
    return document


ORG = ("organizations", 0)
FIELDS = list(WALKER.fields(ROOT))


def around(field: Field) -> dict[str, Any]:
    """The good document that the field is part of."""
    return without_hooks() if field.place[:5] == IN_PLACE_OF_HOOKS else base()


def refused(field: Field) -> list[Any]:
    """What the field does not take: wrong types, and one step over each bound."""
    validator = Draft202012Validator(
        {**field.schema, "$defs": ROOT["$defs"]}, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    choices = list(WALKER.choices(field.schema))
    values = [
        value for choice in choices for value in (*_over(choice), *FORMATS.get(choice.get("format", ""), []))
    ]
    return [value for value in [*VALUES, *values] if not validator.is_valid(value)]


def _over(schema: dict[str, Any]) -> list[Any]:
    bounds = [schema[key] + step for key, step in (("minimum", -1), ("maximum", 1)) if key in schema]
    bounds += [schema["exclusiveMinimum"]] if "exclusiveMinimum" in schema else []
    bounds += ["x" * (schema["maxLength"] + 1)] if "maxLength" in schema else []
    return bounds


def is_leaf(field: Field) -> bool:
    """Whether no other field lies inside; a handler's type says what its other keys are, so it is tried alone."""
    inside = any(other.place[:-1] == field.place for other in FIELDS)
    return not inside and field.place[-3:-1] != ("hooks", 0)


def expect(tmp_path: Path, document: Any, paths: list[str], what: str) -> None:
    """Apply and see each path named once, in order, and nothing else said to be done."""
    ended = documents.apply(tmp_path, document)
    assert (ended.code, ended.out) == (1, []), what
    named = [line.partition(": ")[0] for line in ended.err]
    assert all(line.partition(": ")[2] for line in ended.err), (what, ended.err)
    assert len(named) == len(set(named)), (what, named)
    missing = [path for path in paths if not Field((path,), {}).is_named_by(named)]
    assert not missing, (what, missing, ended.err[:20])


def test_the_good_documents_are_good(tmp_path: Path) -> None:
    for document in (base(), without_hooks()):
        assert documents.apply(tmp_path, document, "--dry-run").code == 0
    assert len(FIELDS) > 130


@pytest.mark.parametrize("start", [base, without_hooks])
def test_every_value_that_a_key_does_not_take(tmp_path: Path, start: Any) -> None:
    """Round by round one bad value in every leaf at once: all of them are named."""
    before = documents.snapshot()
    spelled = start is without_hooks
    leaves = [
        field
        for field in FIELDS
        if is_leaf(field) and (spelled or field.place[:5] != IN_PLACE_OF_HOOKS)
        and not (spelled and field.place[:5] == (*IN_PLACE_OF_HOOKS[:4], "hooks"))
    ]  # fmt: skip
    values = {field.place: refused(field) for field in leaves}
    rounds = max(map(len, values.values()))
    assert rounds >= 10
    for number in range(rounds):
        document, bad = start(), [field for field in leaves if number < len(values[field.place])]
        for field in bad:
            set_in(document, field.place, values[field.place][number])
        expect(tmp_path, document, [field.path for field in bad], f"round {number}")
    assert documents.snapshot() == before


def test_every_value_that_an_object_or_a_list_does_not_take(tmp_path: Path) -> None:
    before = documents.snapshot()
    found = [field for field in FIELDS if not is_leaf(field)]
    for field in found:
        for value in refused(field):
            expect(tmp_path, put(around(field), field.place, value), [field.path], repr(value)[:60])
    assert len(found) > 25
    assert documents.snapshot() == before


def test_every_key_that_must_be_there(tmp_path: Path) -> None:
    for field in FIELDS:
        if field.required:
            expect(tmp_path, drop(around(field), field.place), [field.path], "missing")


def test_an_unknown_key_in_every_object(tmp_path: Path) -> None:
    for start in (base, without_hooks):
        document, paths = start(), []
        for there in WALKER.closed(ROOT):
            field = Field((*there, "zzz"), {})
            if around(field) == start():
                set_in(document, field.place, 1)
                paths.append(field.path)
        assert len(paths) > 2
        expect(tmp_path, document, paths, "unknown")
