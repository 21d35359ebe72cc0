"""What a file may be: bounded YAML or JSON, nothing twice, nothing that isn't plain data."""

from pathlib import Path

import pytest

from hooks_app.config import reading
from tests.config import documents

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("", "(document)", "is empty"),
        ("[1, 2", "line 2", "is not YAML"),
        ("just a text", "(document)", "must be an object"),
        ("a: 1\nb: 2\na: 3\n", "a", "twice in its object (line 3)"),
        ("organizations:\n- slug: x\n  slug: y\n", "organizations[0].slug", "twice"),
        ("1: x\n", "(document)", "must be a text"),
        ("a: !!binary aGk=\n", "a", "binary is not allowed"),
        ("a: !!python/object:os.system {}\n", "a", "is not allowed"),
        ("a: !!set {x, y}\n", "a", "set is not allowed"),
        ("a: !thing x\n", "a", "is not allowed"),
        ("a: .nan\n", "a", "NaN"),
        ("a: 99999999999999999999\n", "a", "2^53"),
        (f"a: {'9' * 5000}\n", "a", "is not a value"),
        ('a: "\\0"\n', "a", "NUL"),
        ("a: &x [*x]\n", "(document)", "expands to too much"),
        ("a: " + "[" * 200 + "]" * 200, "line 1", "nested deeper"),
        ("a: &x {b: *x}\n", "(document)", "expands to too much"),
        ("a: {<<: [1]}\n", "a", "<< takes an object"),
        ("---\na: 1\n---\nb: 1\n", "line 3", "is not YAML"),
    ],
)
def test_what_is_no_config_file_is_refused(tmp_path: Path, text: str, path: str, words: str) -> None:
    ended = documents.apply(tmp_path, text)
    assert (ended.code, ended.out) == (1, [])
    where, _, message = ended.err[0].partition(": ")
    assert where == path or where.startswith(f"{path},"), ended.err
    assert words in message


def test_every_repeated_key_is_named(tmp_path: Path) -> None:
    ended = documents.apply(tmp_path, "a: {b: 1, b: 2}\nc: [{d: 1, d: 2}]\n")
    assert [line.split(": ")[0] for line in ended.err] == ["a.b", "c[0].d"]


def test_aliases_may_not_expand_without_bound(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    ended = documents.apply(tmp_path, "\n".join(lines))
    assert ended.code == 1
    assert "expands to too much" in ended.err[0]


def test_merges_may_not_expand_without_bound(tmp_path: Path) -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 12)]
    ended = documents.apply(tmp_path, "\n".join(lines))
    assert ended.code == 1
    assert "expands to too much" in ended.err[0]


def test_aliases_and_merges_work(tmp_path: Path) -> None:
    text = """
apiVersion: hookgate/v1
organizations:
  - slug: acme
    approval_policies:
      - &slow {slug: slow, timeout_seconds: 600, quorum: 2}
      - {<<: *slow, slug: slower, timeout_seconds: 1200}
"""
    assert documents.apply(tmp_path, text).last == "3 changes"
    assert "quorum: 2" in documents.export().split("slug: slower")[1]


def test_a_date_in_free_text_stays_a_text() -> None:
    assert reading.loads(b"params: {text: 2026-12-01}") == {"params": {"text": "2026-12-01"}}


def test_a_file_over_four_mebibytes_is_refused(tmp_path: Path) -> None:
    ended = documents.apply(tmp_path, "a: " + "x" * reading.MAX_BYTES)
    assert ended.err == ["(document): has more than 4 MiB; split it by organization"]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    ended = documents.apply_file(tmp_path / "nothing.yaml")
    assert ended.code == 1
    assert ended.err[0].endswith("can't be read: No such file or directory")


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ('{"a": 1, "a": 2}', "a", "more than once"),
        ('{"a": NaN}', "a", "NaN"),
        ("{", "(document)", "not JSON"),
        ("{" + '"a":{' * 100, "(document)", "not JSON"),
        (b"\xff\xfe", "(document)", "not UTF-8"),
    ],
)
def test_broken_json_is_refused(tmp_path: Path, text: str | bytes, path: str, words: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    ended = documents.apply_file(file)
    assert ended.code == 1
    where, _, message = ended.err[0].partition(": ")
    assert where == path
    assert words in message
