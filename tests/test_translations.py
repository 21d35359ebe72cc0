"""Every text of the pages is in every language: nothing is left in English by forgetting `make messages`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import translation

ROOT = Path(__file__).resolve().parents[1]
CODE = ("portal", "channels_app", "hooks_app")
CATALOGUES = sorted(
    path.relative_to(ROOT) for app in (".", *CODE) for path in ROOT.glob(f"{app}/locale/*/*/django.po")
)
MARKS = {"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy", "pgettext", "pgettext_lazy"}
# What is the same word in a language, or a sign.
SAME = {"ID", "–"}


def entries(path: Path) -> Iterator[tuple[str, str, bool]]:
    """``(message, translation, fuzzy)`` of a catalogue."""
    for block in (ROOT / path).read_text(encoding="utf-8").split("\n\n"):
        found: dict[str, str] = {}
        key = ""
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            if not line.startswith('"'):
                key, line = line.split(" ", 1)
            found[key] = found.get(key, "") + ast.literal_eval(line)
        if found.get("msgid"):
            yield found["msgid"], found.get("msgstr", found.get("msgstr[0]", "")), "#, fuzzy" in block


def marked() -> Iterator[str]:
    """The texts of the code that are to be translated."""
    for app in CODE:
        for path in (ROOT / app).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKS:
                    text = node.args[1 if node.func.id.startswith("pgettext") else 0] if node.args else None
                    if isinstance(text, ast.Constant) and isinstance(text.value, str):
                        yield text.value


@pytest.mark.parametrize("path", CATALOGUES, ids=str)
def test_every_message_is_translated(path: Path) -> None:
    missing = [message for message, text, fuzzy in entries(path) if not text or fuzzy]
    assert missing == []


def test_there_is_a_catalogue_of_each_language() -> None:
    assert {path.parts[-3] for path in CATALOGUES} == {"ko", "zh_Hans"}


@pytest.mark.parametrize("language", ["ko", "zh-hans"])
def test_every_text_of_the_code_is_collected_and_compiled(language: str) -> None:
    known = {
        message
        for path in CATALOGUES
        if path.parts[-3] == {"ko": "ko", "zh-hans": "zh_Hans"}[language]
        for message, _text, _fuzzy in entries(path)
    }
    texts = set(marked())
    assert len(texts) > 300
    assert sorted(texts - known) == []
    with translation.override(language):
        shown = {text: translation.gettext(text) for text in texts if "%(" not in text}
    assert [text for text, there in shown.items() if text == there and text not in SAME] == []
