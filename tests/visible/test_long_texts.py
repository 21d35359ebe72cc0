"""What is long and strange takes time by its length: arguments may have 256 KiB, and people look at a page of them.

One word took minutes, where a pattern began anew at each of its letters.
"""

import pytest

from portal.lib import visible
from portal.web import pages

COUNT = 100_000
SHAPES = {
    "one word": "x" * 4 * COUNT,
    "one word of another script": "я" * 2 * COUNT,
    "digits": "1" * 4 * COUNT,
    "connectors": "_" * 4 * COUNT,
    "single blanks": " x" * COUNT,
    "lines": "\n " * COUNT,
    "backslashes": "\\" * COUNT,
    "escapes": "\\u00e9" * COUNT,
    "quotes": '"' * COUNT,
    "marks": "\u00e9\u0301" * (COUNT // 4),
    "only marks": "\u0301" * (COUNT // 4),
    "hidden": "\u200b" * (COUNT // 4),
    "Chinese": "汉字" * (COUNT // 4),
    "open tags": "<a " * COUNT,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_long_text_is_shown_like_a_short_one(shape: str) -> None:
    # A letter beyond ASCII, or the quick way out is taken.
    text = f"{SHAPES[shape]} é"
    start, shown = text[:60], visible.page_text(text)
    assert visible.is_suspicious(text) is visible.is_suspicious(f"{start} é")
    assert shown.startswith(visible.page_text(start)[:40])
    assert visible.is_suspicious(text) or shown == text
    assert pages.show(text).endswith("é")
    assert visible.line(text).endswith("é")
