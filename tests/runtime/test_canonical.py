"""Canonical JSON and digests, with vectors that other languages' runtimes can use too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hookgate import canonical
from hookgate.canonical import NotCanonical
from hypothesis import given
from hypothesis import strategies as st

VECTORS = json.loads((Path(__file__).parents[2] / "docs" / "api" / "digests.json").read_text("utf-8"))


@pytest.mark.parametrize("vector", VECTORS["accepted"], ids=lambda vector: vector["name"])
def test_accepted_vectors(vector: dict[str, Any]) -> None:
    value = canonical.loads(vector["json"])
    assert canonical.canonicalize(value).decode() == vector["canonical"]
    assert canonical.digest(value) == vector["digest"]
    assert canonical.loads(vector["canonical"]) == value


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda vector: vector["name"])
def test_refused_vectors(vector: dict[str, Any]) -> None:
    with pytest.raises(NotCanonical) as caught:
        canonical.loads(vector["json"], path="tool_args")
    assert caught.value.path == vector["path"]
    assert str(caught.value) == f"{caught.value.path}: {caught.value.message}"


@pytest.mark.parametrize("bomb", [b"[" * 1_000_000, b'{"a":' * 200_000, b"[" * 33 + b"]" * 33])
def test_deep_nesting_is_refused_and_never_exhausts_the_stack(bomb: bytes) -> None:
    with pytest.raises(NotCanonical, match="nested"):
        canonical.loads(bomb)


def test_depth_is_counted_in_containers_and_can_be_raised_for_an_envelope() -> None:
    deepest = "[" * 32 + "]" * 32
    assert canonical.canonicalize(canonical.loads(deepest)).decode() == deepest
    with pytest.raises(NotCanonical):
        canonical.loads(f"[{deepest}]")
    canonical.loads(f"[{deepest}]", max_depth=33)


@pytest.mark.parametrize("data", [b"\xff", b"\xef\xbb\xbf{}", b"", b"{} {}", b"{'a': 1}", b"[1,]", b"nul"])
def test_what_is_not_one_json_text_is_refused(data: bytes) -> None:
    with pytest.raises(NotCanonical):
        canonical.loads(data)


@pytest.mark.parametrize(
    "value", [(1, 2), {1: 2}, {"a": {1, 2}}, b"x", object(), {"a": [1, 2**53]}, [float("inf")]]
)
def test_python_values_that_are_not_json_are_refused(value: Any) -> None:
    with pytest.raises(NotCanonical):
        canonical.digest(value)


def test_a_long_literal_is_refused_quickly_and_by_place() -> None:
    with pytest.raises(NotCanonical) as caught:
        canonical.loads('{"a": [' + "9" * 100_000 + "]}")
    assert caught.value.path == "a[0]"


SAFE_TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"))
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15, allow_nan=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | SAFE_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SAFE_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_the_canonical_form_reads_back_as_itself(value: Any) -> None:
    written = canonical.canonicalize(value)
    assert canonical.canonicalize(canonical.loads(written)) == written
    assert canonical.digest(canonical.copy(value)) == canonical.digest(value)


@given(st.dictionaries(SAFE_TEXT, NUMBERS, max_size=6))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    assert canonical.digest(dict(reversed(value.items()))) == canonical.digest(value)
