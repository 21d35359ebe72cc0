"""result_truncate: what the model gets of a long result."""

from __future__ import annotations

import asyncio
import json
import unicodedata
from typing import Any

import pytest
from hookgate.catalogue import CATALOGUE
from hookgate.catalogue.limits import shorten
from hookgate.graphemes import find_boundary
from hookgate.result_text import as_text
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.documents import hook, manifest
from tests.runtime.harness import Tool, serve

PIECES = ["a", "\n", "é", "e\u0301", "네", "\u1102\u1166", "👍🏽", "👩\u200d💻", '"', "\\", "{", "\x00"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=300).map("".join)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=30), st.dictionaries(TEXTS, inner, max_size=10)),
)
LIMITS = st.integers(100, 500)


@given(TEXTS.map(lambda text: f"{text}e\u0301👍🏽" * 30), LIMITS)
def test_text_keeps_its_beginning_and_says_how_much_is_missing(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit
    assert shorten(short, limit) == short
    if short == text:
        assert len(text) <= limit
        return
    kept, mark = short.rsplit("\n[truncated: ", 1)
    assert text.startswith(kept)
    assert find_boundary(text, len(kept)) == len(kept)
    assert mark == f"{len(text) - len(kept)} of {len(text)} characters left out]"
    # What would fit is kept, but for the rest of one character.
    assert len(kept) >= limit - len("\n[truncated: ") - len(mark) - 40


@settings(deadline=None)
@given(JSON, LIMITS)
def test_json_stays_json_as_a_value_and_as_a_text(value: Any, limit: int) -> None:
    written = json.dumps(value, ensure_ascii=False)
    short = shorten(value, limit)
    assert len(as_text(short)) <= limit
    assert shorten(short, limit) == short
    if not isinstance(value, str) and len(written) > limit:
        assert short["truncated"] is True
        assert written.startswith(short["start"])
        assert find_boundary(written, len(short["start"])) == len(short["start"])
        assert short["left_out"] + len(short["start"]) == short["characters"] == len(written)
    if written[0] in '{["':
        text = shorten(written, limit)
        assert len(text) <= limit
        assert shorten(text, limit) == text
        assert json.loads(text) == (value if len(written) <= limit else json.loads(text))
        assert (text == written) is (len(written) <= limit)


@pytest.mark.parametrize(
    ("text", "at", "boundary"),
    [
        ("abc", 2, 2), ("abc", 3, 3), ("abc", 0, 0), ("e\u0301x", 1, 0), ("xe\u0301", 2, 1), ("e\u0301x", 2, 2),
        ("a👍🏽", 2, 1), ("a👩\u200d💻b", 2, 1), ("a👩\u200d💻b", 3, 1), ("a👩\u200d💻b", 4, 4), ("\u1102\u1166", 1, 0),
        ("a\r\nb", 2, 1), ("a\ud83d\ude00", 2, 1), ("क्षि", 3, 2), ("a\ufe0fb", 1, 0),
        # A heap of marks on one letter is no reason to keep nothing.
        ("a" + "\u0301" * 500, 400, 400),
    ],
)  # fmt: skip
def test_a_cut_lies_between_characters(text: str, at: int, boundary: int) -> None:
    assert find_boundary(text, at) == boundary


@given(TEXTS, st.integers(0, 400))
def test_a_cut_text_composes_like_the_whole_one(text: str, at: int) -> None:
    place = find_boundary(text, min(at, len(text)))
    composed = [unicodedata.normalize("NFC", part) for part in (text[:place], text[place:], text)]
    assert composed[0] + composed[1] == composed[2]


class Cyclic(list[Any]):
    pass


CYCLIC = Cyclic()
CYCLIC.append(CYCLIC)
DEEP: Any = "end"
for _ in range(50_000):
    DEEP = [DEEP]


class Opaque:
    def __str__(self) -> str:
        return "opaque " * 1000


@pytest.mark.parametrize(
    "value",
    [b"\x00" * 10_000, bytearray(10_000), tuple(range(5000)), 10**4000, Opaque(),
     {"a": Opaque()}, {1: {2: "x" * 9000}}],
    ids=["bytes", "bytearray", "tuple", "number", "object", "nested", "keys"],
)  # fmt: skip
def test_whatever_it_is_the_model_reads_no_more_than_it_may(value: Any) -> None:
    assert len(as_text(value)) > 1000
    short = shorten(value, 1000)
    assert 900 < len(as_text(short)) <= 1000
    assert as_text(value).startswith(short["start"])


def test_what_can_not_be_written_says_so_and_is_shortened_like_everything_else() -> None:
    assert shorten(CYCLIC, 100) is CYCLIC
    assert as_text(CYCLIC) == '["(refers to what it is in)"]'
    assert "(nested deeper than 100 levels, not shown)" in as_text(DEEP)
    assert len(as_text(shorten(DEEP, 150))) <= 150


def test_the_default_is_8000_characters_and_an_error_stays_whole() -> None:
    assert CATALOGUE["result_truncate"].validate_params({}) == {"max_chars": 8000}

    async def run() -> None:
        params = {"max_chars": 8000}
        document = manifest(hook("result_truncate", params=params))
        async with serve(document) as (_, runtime), runtime.session("procurement") as session:
            long = await session.call_tool("oa__read", {}, execute=Tool("x" * 8001))
            assert 7990 < len(long.observation) <= 8000
            assert (await session.call_tool("oa__read", {}, execute=Tool("x" * 8000))).result == "x" * 8000
            failed = await session.call_tool("oa__read", {}, execute=Tool(error=ValueError("e" * 20_000)))
            assert failed.observation == f"Tool oa__read failed: ValueError: {'e' * 20_000}"

    asyncio.run(run())
