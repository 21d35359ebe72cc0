"""The table of known failures names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
HERE = Path(__file__).parent
NUMBERS = range(1, 47)
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+) \|$", re.M)
NODE = re.compile(r"`([\w/]+\.py)::(\w+)`")


def rows() -> dict[int, tuple[str, list[tuple[str, str]]]]:
    """``{number: (what must hold, [(file, test)])}``."""
    found = ROW.findall((HERE / "README.md").read_text())
    assert len(found) == len({number for number, *_ in found}), "a number has two rows"
    return {int(number): (words, NODE.findall(tests)) for number, words, tests in found}


@cache
def functions(file: Path) -> dict[str, str]:
    """The file's functions, each with its docstring."""
    tree = ast.parse(file.read_text())
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_number_has_a_row_with_a_test() -> None:
    table = rows()
    assert sorted(table) == list(NUMBERS)
    assert [number for number, (words, tests) in table.items() if not (words and tests)] == []


def test_every_test_that_the_table_names_exists() -> None:
    named = {node for _, tests in rows().values() for node in tests}
    missing = [
        f"{file}::{name}"
        for file, name in sorted(named)
        if not (TESTS / file).is_file() or name not in functions(TESTS / file)
    ]
    assert missing == [], "renamed or moved: name them anew in tests/defects/README.md"


def test_every_test_of_this_folder_is_in_the_table_under_its_number() -> None:
    table = rows()
    for file in sorted(HERE.glob("test_*.py")):
        if file == Path(__file__):
            continue
        for name, docstring in functions(file).items():
            if not name.startswith("test_"):
                continue
            numbers = {
                int(n)
                for part in re.findall(r"failures? ([\d, and]+)", docstring)
                for n in re.findall(r"\d+", part)
            }
            assert numbers, f"{name} names no number"
            for number in numbers:
                assert (f"defects/{file.name}", name) in table[number][1], (number, name)
