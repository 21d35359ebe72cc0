"""What the docs say is there is there: links, tests, variables, metrics, hooks."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from tests.docs.tables import DOCS, ROOT, catalogue, facts, generated, metrics_table, pages, variables

PAGES = sorted(
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def anchors(path: Path) -> set[str]:
    """The fragments of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        path, _, fragment = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        wanted = (page.parent / path).resolve() if path else page
        if not wanted.exists() or (fragment and fragment not in anchors(wanted)):
            broken.append(target)
    assert broken == []


def test_every_page_of_the_docs_is_linked_from_another() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if target.partition("#")[0] and not re.match(r"[a-z]+:", target)
    }
    assert [page for page in PAGES if page.is_relative_to(DOCS) and page not in linked] == []


def test_the_pages_are_found() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "docs/quickstart.md", "docs/hooks.md", "docs/threat-model.md"} <= names
    assert "the-gate-and-its-entries" in anchors(DOCS / "hooks.md")


def test_the_hooks_page_has_the_catalogue() -> None:
    page = (DOCS / "hooks.md").read_text(encoding="utf-8")
    assert generated(page, "catalogue") == catalogue(), "run python -m tests.docs.tables"


def test_every_hook_has_its_page() -> None:
    assert {path.stem for path in (DOCS / "hooks").iterdir()} == set(pages())
    for name, entry in pages().items():
        page = (DOCS / "hooks" / f"{name}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {name}\n"), name
        assert generated(page, "facts") == facts(entry), "run python -m tests.docs.tables"


def first_cells(page: Path, name: str) -> list[list[str]]:
    """The rows of the table in a marked part, cells stripped, without its head."""
    lines = [line for line in generated(page.read_text(encoding="utf-8"), name).splitlines() if line.strip()]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_environment_table_has_every_variable_and_no_other() -> None:
    rows = first_cells(DOCS / "operations.md", "environment")
    assert {row[0].strip("`"): row[1] == "yes" for row in rows} == variables()


def test_the_metrics_table_has_every_metric_and_no_other() -> None:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    assert generated(page, "metrics") == metrics_table(), "run python -m tests.docs.tables"


@pytest.mark.django_db
def test_what_is_shown_is_what_is_declared(client: Client) -> None:
    """Names, help and labels, as Prometheus reads them."""
    from portal.observe import metrics

    families = {
        f"{family.name}_total" if family.type == "counter" else family.name: family
        for family in text_string_to_metric_families(client.get("/metrics").content.decode())
        if family.name.startswith("hookgate_")
    }
    declared = {found.name: found for found in metrics.declared() if found.source != "broker"}
    assert set(families) - {"hookgate_tasks_queued"} == set(declared)
    for name, found in declared.items():
        assert families[name].documentation == found.text
        labels = {label for sample in families[name].samples for label in sample.labels if label != "le"}
        assert labels in (set(), set(found.labels)), name


def test_the_log_events_are_logged() -> None:
    rows = first_cells(DOCS / "operations.md", "log events")
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]
    code = "".join(
        path.read_text(encoding="utf-8")
        for app in ("portal", "channels_app", "hooks_app")
        for path in (ROOT / app).rglob("*.py")
    )
    assert named
    assert [name for name in named if f'"{name}"' not in code] == []


def claimed_tests() -> Iterator[str]:
    page = (DOCS / "threat-model.md").read_text(encoding="utf-8")
    for line in page.partition("## Claims")[2].partition("## What it does not defend")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells not in (["claim", "test"], ["---", "---"]):
            yield cells[1].strip("`")


def claimed_of_failures() -> Iterator[str]:
    """The tests that the rows of the runtime page's table name; each row names some."""
    for row in first_cells(DOCS / "runtime.md", "failures"):
        named = re.findall(r"`(\w+\.py::\w+)`", row[-1])
        assert named, row[0]
        yield from (f"tests/runtime/{name}" for name in named)


@pytest.mark.parametrize("test", sorted({*claimed_tests(), *claimed_of_failures()}))
def test_each_claim_names_a_test_that_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert (ROOT / path).is_file()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert name in functions


def test_the_commands_of_the_docs_exist() -> None:
    """`manage.py NAME` and `make NAME`, wherever a page says so."""
    from django.core.management import get_commands

    known = set(get_commands())
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    commands = set(re.findall(r"manage\.py ([a-z][a-z_]*)", text))
    made = set(re.findall(r"(?:`|^|&& )make ([a-z]+)", text, re.MULTILINE))
    assert commands - known == set()
    assert made - targets == set()
    assert {"run", "demo", "test"} <= made


def test_every_make_target_has_its_help() -> None:
    # Inside `make test` it would say which folder it enters.
    make = ["make", "--no-print-directory", "help"]
    listed = subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    assert {line.split()[0] for line in listed.splitlines()} == set(phony[1].split())
    assert all(len(line.split()) > 1 for line in listed.splitlines())


def test_the_limits_that_the_operations_page_names() -> None:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    assert settings.THREADS == 8
    assert "eight threads per web process" in page
    assert f"{settings.STREAMS_PER_CALLER} event streams per process" in page
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE == 8 * 1024 * 1024
