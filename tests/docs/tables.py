"""The parts of the docs that are generated: ``python -m tests.docs.tables`` writes them into their pages.

A generated part stands between ``<!-- NAME -->`` and ``<!-- /NAME -->``.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hookgate.catalogue import CATALOGUE, CatalogueEntry
from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FRAMEWORKS = ("plain_loop", "langgraph_agent", "openai_agents", "mcp_client")


def generated(page: str, name: str) -> str:
    """What stands in a page's generated part. Fails when the page has none of that name."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", page, re.DOTALL)
    assert found, f"the page has no part {name}"
    return found[1]


def pages() -> dict[str, CatalogueEntry]:
    """The hooks that have a page; other spellings of one class are told with it."""
    return {entry.name: entry for entry in CATALOGUE.values() if entry.spelling_of is None}


def catalogue() -> str:
    """One row per hook of the catalogue."""
    rows = [
        f"| [`{name}`](hooks/{name}.md) | {entry.summary} | {_points(entry)} | {entry.priority} | `{entry.on_error}` |"
        for name, entry in pages().items()
    ]
    return "\n".join(["| hook | | points | priority | `on_error` |", "|---|---|---|---|---|", *rows, ""])


def facts(entry: CatalogueEntry) -> str:
    """What the page of one hook says about its declaration."""
    spellings = [other.name for other in CATALOGUE.values() if other.spelling_of == entry.name]
    words = [f"Points: {_points(entry)}. Priority {entry.priority}. `on_error: {entry.on_error}`."]
    if spellings:
        words.append(f"Also spelled {', '.join(f'`{name}`' for name in spellings)}.")
    if entry.attached:
        words.append("Attached to every agent.")
    rows = list(_rows(entry.params_model()))
    table = ["| parameter | type | default | |", "|---|---|---|---|", *rows] if rows else ["No parameters."]
    return "\n".join([" ".join(words), "", *table, ""])


def _points(entry: CatalogueEntry) -> str:
    named = entry.params_model().model_fields.get("points")
    if named is not None:
        return "those of its parameter `points`"
    return ", ".join(f"`{point}`" for point in entry.points)


def _rows(model: type[BaseModel]) -> Iterator[str]:
    schema = model.model_json_schema()
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        shown = "required" if field.is_required() else f"`{json.dumps(default)}`"
        kind = _type(schema, schema["properties"][name])
        yield f"| `{name}` | {kind} | {shown} | {field.description} |"


def _type(schema: dict[str, Any], field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(_type(schema, option) for option in field["anyOf"])
    if "$ref" in field:
        return "hook point"
    kind = field["type"]
    if kind == "integer":
        return f"{field['minimum']}…{field['maximum']}"
    if kind == "string":
        return (
            "name" if "pattern" in field else f"text of {field['minLength']}…{field['maxLength']} characters"
        )
    if kind == "array":
        return f"list of {field.get('minItems', 0)}…{field['maxItems']}: {_type(schema, field['items'])}"
    return str(kind)


def variables() -> dict[str, bool]:
    """Every variable that the portal reads, and whether it may come from a file."""
    found: dict[str, bool] = {}
    for path in (ROOT / "portal").rglob("*.py"):
        for reader, name in re.findall(
            r"environment\.(text|flag|number|words|address|secret|kept_secret)\(\s*\"(\w+)\"",
            path.read_text(encoding="utf-8"),
        ):
            found[name] = found.get(name, False) or "secret" in reader
    return found


def metrics_table() -> str:
    """One row per metric of ours, in the order of their names."""
    import django

    django.setup()
    from portal.observe import metrics  # the apps' own are declared when Django loads them

    rows = [
        f"| `{found.name}` | {', '.join(f'`{label}`' for label in found.labels)} | {found.source} | {found.text} |"
        for found in sorted(metrics.declared(), key=lambda found: found.name)
    ]
    return "\n".join(["| name | labels | read from | |", "|---|---|---|---|", *rows, ""])


def framework(name: str) -> str:
    """The part of an example that a program of one's own takes over, as a block of the page."""
    file = (ROOT / "examples" / "frameworks" / f"{name}.py").read_text(encoding="utf-8")
    (part,) = re.findall(r"^# -- yours from here\n(.*?)\n*^# -- to here\n", file, re.DOTALL | re.MULTILINE)
    return f"```python\n{part}\n```\n"


def write(path: Path, name: str, content: str) -> None:
    """Put ``content`` into the part ``name`` of a page."""
    page = path.read_text(encoding="utf-8")
    old = generated(page, name)
    path.write_text(page.replace(f"<!-- {name} -->\n{old}", f"<!-- {name} -->\n{content}"), encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    write(DOCS / "hooks.md", "catalogue", catalogue())
    for hook, described in pages().items():
        write(DOCS / "hooks" / f"{hook}.md", "facts", facts(described))
    for example in FRAMEWORKS:
        write(DOCS / "frameworks.md", example, framework(example))
    write(DOCS / "operations.md", "metrics", metrics_table())
