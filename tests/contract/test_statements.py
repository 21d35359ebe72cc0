"""``statements.md`` names, for every statement of section 5, tests that exist."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("statements.md")
ROW = re.compile(r"\| (\d+) \| (.+?) \| (`[^|]+`) \|")
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
# Where a fake portal stands in for the real one: nothing may be shown there alone.
FAKE = "runtime/"
# The package by itself is shown without any portal.
WITHOUT = {1}


def read() -> list[tuple[int, str, list[tuple[str, str]]]]:
    """The table's rows: number, statement, and (file, function) of each test."""
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if re.match(r"\| *\d", line)]
    rows = []
    for line in lines:
        row = ROW.fullmatch(line.replace("\\|", "/"))
        assert row, f"not a row of this table: {line}"
        named = [TEST.fullmatch(name) for name in row[3].split(", ")]
        assert all(named), f"not the names of tests: {row[3]}"
        rows.append((int(row[1]), row[2], [(found[1], found[2]) for found in named if found]))
    return rows


def defined(file: Path) -> set[str]:
    """The functions at the top of a module."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_numbers_have_no_gaps_and_no_statement_comes_twice() -> None:
    rows = read()
    assert [number for number, _, _ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) > 100
    assert len({statement for _, statement, _ in rows}) == len(rows)


def test_every_test_that_is_named_exists() -> None:
    found: dict[str, set[str]] = {}
    for number, _, tests in read():
        for file, name in tests:
            if file not in found:
                assert (TESTS / file).is_file(), (number, file)
                found[file] = defined(TESTS / file)
            assert name in found[file], (number, file, name)


def test_every_statement_is_shown_against_the_real_portal() -> None:
    fake = {number for number, _, tests in read() if all(file.startswith(FAKE) for file, _ in tests)}
    assert fake == WITHOUT
