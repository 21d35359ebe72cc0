"""Redaction paths."""

from __future__ import annotations

from typing import Any

import pytest
from hookgate.canonical import copy
from hookgate.redaction import SECRET_KEYS, redact

X = "[redacted]"


@pytest.mark.parametrize(
    ("paths", "args", "expected"),
    [
        (["card"], {"card": 1, "a": {"card": {"n": 1}}, "l": [{"card": 2}]},
         {"card": X, "a": {"card": X}, "l": [{"card": X}]}),
        (["a.b"], {"a": {"b": 1, "c": 2}, "b": 3}, {"a": {"b": X, "c": 2}, "b": 3}),
        (["a.b"], {"x": {"a": {"b": 1}}}, {"x": {"a": {"b": 1}}}),
        (["items.price"], {"items": [{"price": 1}, {"price": 2, "q": 3}]},
         {"items": [{"price": X}, {"price": X, "q": 3}]}),
        (["items.1.price"], {"items": [{"price": 1}, {"price": 2}]}, {"items": [{"price": 1}, {"price": X}]}),
        (["*.b"], {"a": {"b": 1}, "c": {"b": 2}, "b": 3}, {"a": {"b": X}, "c": {"b": X}, "b": 3}),
        (["a.*"], {"a": {"b": 1, "c": [2]}}, {"a": {"b": X, "c": X}}),
        (["a.*"], {"a": [1, 2]}, {"a": [X, X]}),
        (["a.b.c"], {"a": [[{"b": {"c": 1}}]]}, {"a": [[{"b": {"c": X}}]]}),
        (["*"], {"a": 1, "b": [1]}, {"a": X, "b": X}),
        (["missing", "a.b.c.d"], {"a": {"b": 1}}, {"a": {"b": 1}}),
        ([], {"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
    ],
)  # fmt: skip
def test_paths(paths: list[str], args: Any, expected: Any) -> None:
    before = copy(args)
    assert redact(args, paths) == expected
    assert args == before


def test_secret_looking_keys_are_found_in_any_case() -> None:
    args = {"Password": 1, "x": [{"API-Key": 2, "Authorization": "Bearer x"}], "tokens_used": 5, "amount": 1}
    assert redact(args, [], secret_keys=SECRET_KEYS) == {
        "Password": X, "x": [{"API-Key": X, "Authorization": X}], "tokens_used": 5, "amount": 1,
    }  # fmt: skip


def test_wildcards_through_nested_lists_stay_cheap() -> None:
    nested: Any = 1
    for _ in range(31):
        nested = [nested]
    redact({"a": nested}, ["a." + "*." * 40 + "x"])
