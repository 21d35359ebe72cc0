"""The filter itself: what is shown, what stays, what gets a mark, and how long it takes."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from portal.lib import scripts, visible
from tests.visible.unicode import EVERYTHING, hidden_in, is_hidden

ALL = [visible.line, visible.block, visible.speech, visible.page_text, visible.plain, visible.plain_line]
# A blank, a variation selector, a tag, fillers, a musical and a hieroglyph format character …
SAMPLES = [
    0x200B,
    0xFE0F,
    0xE0041,
    0x3164,
    0xFFA0,
    0x1D173,
    0x13430,
    0xA0,
    0x3000,
    0x2800,
    0xD800,
    0xE000,
    0x85,
]
KEPT = {visible.line: "", visible.block: "\n", visible.plain_line: ""}


@pytest.mark.parametrize("shown", ALL, ids=lambda shown: shown.__name__)
def test_all_of_unicode_is_seen(shown) -> None:
    drawn = shown(EVERYTHING)
    assert hidden_in(drawn) <= set(KEPT.get(shown, "\n\t"))
    assert shown(drawn) == drawn
    for code in SAMPLES:
        assert f"\\u{code:04x}" in drawn, hex(code)
    for seen in "aЖ한漢カ👍€½ß":
        assert seen in shown(f"({seen})")


@example(
    ["\u0301", "a", "\u0301", "n", "а"]
)  # a letter that could be a digit of the escape, with a mark of its own
@given(st.lists(st.sampled_from([*" nxaа漢\u0301\u0302\u200b\ufe0f⚠1\U000e0041", "\\u200b"]), max_size=20))
def test_showing_twice_is_showing_once(parts: list[str]) -> None:
    text = "".join(parts)
    for shown in ALL:
        assert shown(shown(text)) == shown(text)


def test_line_breaks_and_tabs_stay_where_a_person_speaks() -> None:
    text = "first\n\tsecond\r"
    assert visible.speech(text) == "first\n\tsecond\\u000d"
    assert visible.block(text) == "first\n\\tsecond\\u000d"
    assert visible.line(text) == "first\\n\\tsecond\\u000d"


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("one two", "one two"),
        ("a  b", "a␣␣b"),
        ("a" + " " * 400 + "b", "a␣×400b"),
        (" admin", "␣admin"),
        ("admin ", "admin␣"),
        ("", ""),
    ],
)
def test_runs_of_blanks_are_seen(text: str, drawn: str) -> None:
    assert visible.line(text) == drawn


def test_a_block_keeps_its_indentation_and_shows_what_pushes_text_away() -> None:
    assert visible.dump({"a": {"b": "x   y"}}) == '{\n  "a": {\n    "b": "x␣␣␣y"\n  }\n}'
    assert visible.block("a\n" + " " * 500 + "b") == "a\n␣×500b"


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("né", "né"),
        ("ne\u0301", "ne\u0301"),
        ("ệ", "ệ"),
        ("e\u0323\u0302", "e\u0323\u0302"),
        ("किताब", "किताब"),
        ("שָׁלוֹם", "שָׁלוֹם"),
        ("a\u0301\u0301", "a\u0301\\u0301"),
        ("a" + "".join(chr(0x300 + n) for n in range(6)), "a\u0300\u0301\u0302\u0303\\u0304\\u0305"),
        ("9\u0336", "9\\u0336"),
        ("\u0336x", "\\u0336x"),
        ("a\u034f\u0301", "a\\u034f\\u0301"),
        ("a\u200b\u0301", "a\\u200b\\u0301"),
    ],
)
def test_marks_that_pile_up_or_stand_on_nothing_are_seen(text: str, drawn: str) -> None:
    assert visible.line(text) == drawn


@pytest.mark.parametrize(
    "word",
    ["pay", "Привет", "αβγ", "한글abc", "漢字abc", "カナabc", "ひらがなカナ漢字abc", "ㄅㄆ漢abc", "한글漢字abc",
     "naïve", "5µm", "ไทย", "العربية", "٣٤٥", "ＡＢＣ文档", "oa__purchase_pay", "עברית", "क्षत्रिय", "ー々", "Ⅷ"],
)  # fmt: skip
def test_words_of_one_writing_system_pass(word: str) -> None:
    assert visible.line(word) == word


@pytest.mark.parametrize(
    "word",
    ["pаy", "oa__рау", "Ελληνικάabc", "שלוםabc", "한글カナ", "ไทยabc", "ɑρρⅼe", "𝐚dmin", "𝚙𝚊𝚢", "1٢", "абвαβγ", "Ꭺdmin",
     "漢字ж", "ⲣay", "կapi"],
)  # fmt: skip
def test_words_below_highly_restrictive_get_a_mark(word: str) -> None:
    for shown in (visible.line, visible.block, visible.speech, visible.page_text):
        assert shown(f"to {word}!") == f"to ⚠{word}!"
    assert visible.dump([word]) == f'[\n  "⚠{word}"\n]'


def test_an_escape_is_no_part_of_a_word() -> None:
    assert visible.dump({"text": "раз\nдва\tтри"}) == '{\n  "text": "раз\\nдва\\tтри"\n}'
    assert visible.line("\u200bЖук") == "\\u200bЖук"


def test_a_new_script_is_like_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts._page.cache_clear()
    monkeypatch.setattr(
        scripts, "_HELD_BY", [held for held in scripts._HELD_BY if held[0] != scripts._BITS["Cyrl"]]
    )
    assert scripts.is_mixed("pаy")
    assert not scripts.is_mixed("Привет")
    scripts._page.cache_clear()


def test_json_for_programs_reads_back() -> None:
    import json

    value = {"k\u200b": "a\U000e0041b\u202e\x85 ☃ é"}
    text = visible.machine_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not any(is_hidden(character) for character in text)
    assert "☃ é" in text


@pytest.mark.parametrize(
    "text",
    ["аa " * 87_000, "a" + "\u0301" * 130_000, "\u200b" * 87_000, "\\u" * 130_000, " " * 262_144, "x  " * 87_000,
     "аb" * 87_000, "\n " * 131_072, EVERYTHING[:131_072], "⚠" * 87_000, "<a \"'" * 50_000],
    ids=range(11),
)  # fmt: skip
def test_the_longest_arguments_take_no_time(text: str) -> None:
    began = time.thread_time()
    visible.dump(text)
    visible.line(text)
    visible.page_text(text)
    assert time.thread_time() - began < 4
