"""Who imports whom: the drawing in ``docs/architecture.md``, and every circle. ``python -m tests.imports`` redraws.

Every import counts, those for type-checking and those inside functions too.
"""

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
SOURCES = {
    "hooks_app": ROOT,
    "channels_app": ROOT,
    "portal": ROOT,
    "hookgate": ROOT / "runtime",
}
BEGIN, END = "<!-- imports: made by `make drawing` -->\n", "<!-- imports end -->\n"

Graph = Mapping[str, set[str]]


def modules() -> dict[str, Path]:
    """The product's modules by name, without migrations."""
    found = {}
    for package, base in SOURCES.items():
        for path in (base / package).rglob("*.py"):
            parts = path.relative_to(base).with_suffix("").parts
            if "migrations" not in parts:
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def graph() -> dict[str, set[str]]:
    """What each module imports of the product."""
    paths = modules()
    return {name: _imported(path, paths) - {name} for name, path in paths.items()}


def _imported(path: Path, known: Mapping[str, Path]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & known.keys()
            if names - known.keys() and node.module in known:
                found.add(node.module)
    return found


def circles(edges: Graph) -> list[list[str]]:
    """Every set of more than one node that reach each other, sorted."""
    reach = {node: _reached(node, edges) for node in edges}
    found = {frozenset(other for other in reach[node] if node in reach.get(other, ())) for node in edges}
    return sorted(sorted(circle) for circle in found if len(circle) > 1)


def _reached(node: str, edges: Graph) -> set[str]:
    seen: set[str] = set()
    waiting = [node]
    while waiting:
        for other in edges.get(waiting.pop(), ()):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


def folders(edges: Graph) -> dict[str, set[str]]:
    """The same between folders: ``hooks_app.registry``; loose modules of an app count as the app."""
    names = {name for name in edges if any(other.startswith(f"{name}.") for other in edges)}

    def folder(module: str) -> str:
        parts = module.split(".")
        return ".".join(parts[:2]) if ".".join(parts[:2]) in names else parts[0]

    found: dict[str, set[str]] = defaultdict(set)
    for module, imported in edges.items():
        found[folder(module)] |= {folder(other) for other in imported} - {folder(module)}
    return dict(found)


def draw() -> str:
    """The folders of each app and of the runtime, with an arrow for every import that no longer way already says."""
    edges = graph()
    within = {
        name: {other for other in imported if "." in other and _app(other) == _app(name)}
        for name, imported in folders(edges).items()
        if "." in name
    }
    lines = ["```mermaid", "flowchart TD"]
    for app in SOURCES:
        inside = sorted(name for name in within if _app(name) == app)
        lines.append(f"  subgraph {app}")
        lines += [f"    {_id(name)}[{name.split('.')[1]}]" for name in inside]
        lines += [f"    {_id(a)} --> {_id(b)}" for a in inside for b in sorted(_shortest(a, within))]
        lines.append("  end")
    apps: dict[str, set[str]] = defaultdict(set)
    for name, imported in edges.items():
        apps[_app(name)] |= {_app(other) for other in imported} - {_app(name)}
    lines += [f"  {a} --> {b}" for a in SOURCES for b in sorted(_shortest(a, apps))]
    return "\n".join([*lines, "```", ""])


def _shortest(node: str, edges: Graph) -> set[str]:
    """The imports of ``node`` that none of its other imports leads to."""
    return {
        other
        for other in edges[node]
        if not any(other in _reached(third, edges) for third in edges[node] - {other})
    }


def _app(name: str) -> str:
    return name.split(".")[0]


def _id(name: str) -> str:
    return name.replace(".", "_")


def drawn() -> str:
    """The page with the drawing as it should be."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{draw()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(drawn())
