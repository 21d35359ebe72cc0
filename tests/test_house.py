"""The rules of the house that no linter knows."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests import imports

ROOT = Path(__file__).parent.parent
MAX_FUNCTION_LINES = 40
MAX_FILE_LINES = 400


def sources() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return [ROOT / name for name in listed if "/migrations/" not in name and (ROOT / name).exists()]


def test_no_file_is_longer_than_the_house_allows() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for p in sources()
        if (n := len(p.read_text().splitlines())) > MAX_FILE_LINES
    }
    assert long == {}


def test_no_function_is_longer_than_the_house_allows() -> None:
    long = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
                docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
                if (node.end_lineno or 0) - node.lineno + 1 - docstring > MAX_FUNCTION_LINES:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert long == []


@pytest.mark.parametrize("word", ["TODO", "FIXME", "XXX", "NotImplementedError"])
def test_product_code_is_finished(word: str) -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in sources()
        if not str(path.relative_to(ROOT)).startswith("tests/")
        and re.search(rf"\b{word}\b", path.read_text())
    ]
    assert found == []


def test_no_module_imports_one_that_imports_it() -> None:
    """Nor any folder, within an app and the runtime; for type-checking neither."""
    found = imports.graph()
    assert len(found) > 400
    assert imports.circles(found) == []
    within = {name: edges for name, edges in imports.folders(found).items() if "." in name}
    assert imports.circles(within) == []
    assert imports.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_the_drawing_of_imports_is_up_to_date() -> None:
    assert imports.drawn() == imports.PAGE.read_text(), "run `make drawing`"


def test_imports_run_one_way() -> None:
    result = subprocess.run(["lint-imports"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_every_event_of_the_log_is_a_thing_and_what_became_of_it() -> None:
    """``thing.happened``. Celery's and the request middleware's own are theirs."""
    found = set()
    for package in ("portal", "channels_app", "hooks_app"):
        for path in (ROOT / package).rglob("*.py"):
            found |= set(re.findall(r"\blog\.\w+\(\s*\"([^\"]+)\"", path.read_text()))
    assert len(found) > 30
    assert {event for event in found if not re.fullmatch(r"[a-z_]+\.[a-z_]+", event)} == set()
