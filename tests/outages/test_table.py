"""The page of operations says what happens when something is down, and names a test for each row."""

import importlib

import pytest

from tests.docs.tables import DOCS, generated

ROWS = [
    row.strip("|").split("|")
    for row in generated((DOCS / "operations.md").read_text(encoding="utf-8"), "outages").splitlines()[2:]
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip()[:40])
def test_each_row_names_a_test_that_exists(row: list[str]) -> None:
    file, _, name = row[-1].strip().strip("`").partition("::")
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    assert callable(getattr(module, name))
