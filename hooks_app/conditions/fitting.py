"""Whether a condition fits what it is asked over: names that nothing has, comparisons that can never hold. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hookgate.events import HookEvent
from hookgate.matching.matching import MatchError
from hookgate.registry.manifest import SURFACES

from hooks_app.conditions import parsing, shapes
from hooks_app.conditions.shapes import Shape, Unknown
from hooks_app.conditions.tree import Call, Entries, Index, Items, Literal, Macro, Name, Node, Select
from portal.lib import nearest

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}


def _object(*names: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**dict.fromkeys(names, _TEXT), **more}}


# Section 5 of the contract, "Which hooks run".
_VARIABLES: Mapping[str, Any] = {
    "event": {"enum": [event.value for event in HookEvent]},
    "surface": {"enum": list(SURFACES)},
    "tool": _object(
        "name", "connector", "action", writes={"type": "boolean"}, requires_confirmation={"type": "boolean"}
    ),
    "agent": _object("id", "slug", "organization"),
    "user": _object("id", "name", "email"),
}
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_TEXT_METHODS = ("contains", "startsWith", "endsWith", "matches")
_MAKES = {"size": "number", "int": "number", "uint": "number", "double": "number", "string": "string"}


@dataclass
class Faults:
    """``names`` that nothing has; ``comparisons`` that can't be right."""

    names: list[str] = field(default_factory=list)
    comparisons: list[str] = field(default_factory=list)


def check(source: str, schemas: Mapping[str, Any]) -> list[str]:
    """What is wrong with a condition over any of these tools' arguments: ``schemas`` by name, null where nobody says.

    A name counts only if no tool has it; a comparison that some tool's schema contradicts is told with that tool,
    unless the condition itself looks at which tool it is.
    """
    try:
        tree = parsing.parse(source)
    except MatchError:
        return []  # told where it is compiled
    found = {name: _judge(tree, schema) for name, schema in (schemas or {"": None}).items()}
    names = _in_all([faults.names for faults in found.values()])
    if _reads_tool(tree):
        return names + _in_all([faults.comparisons for faults in found.values()])
    told: dict[str, list[str]] = {}
    for name, faults in found.items():
        for text in faults.comparisons:
            told.setdefault(text, []).append(name)
    everywhere = len(found)
    return names + [
        text if len(tools) == everywhere else f"{text} (of {', '.join(tools[:3])})"
        for text, tools in told.items()
    ]


def _in_all(lists: list[list[str]]) -> list[str]:
    return [text for text in dict.fromkeys(lists[0]) if all(text in one for one in lists)]


def _reads_tool(node: Node) -> bool:
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, Name) and part.name == "tool":
            return True
        stack += part.children()
    return False


def _judge(tree: Node, schema: Any) -> Faults:
    judge = _Judge(schema)
    judge.look(tree, {})
    return judge.faults


def write(node: Node) -> str:
    """A part as a person would write it, as far as it is a path."""
    match node:
        case Name(name):
            return name
        case Select(of, name):
            return f"{write(of)}.{name}"
        case Index(of, Literal(str(key))):
            return f'{write(of)}["{key}"]'
        case Index(of, _):
            return f"{write(of)}[…]"
        case Call("size", (of,), None) | Call("size", (), Node() as of):
            return f"size({write(of)})"
        case Literal(value):
            return (
                f'"{value[:60]}"'
                if isinstance(value, str)
                else "null"
                if value is None
                else str(value).lower()
            )
    return "this"


class _Judge:
    """Goes through a condition once, with what each part can be."""

    def __init__(self, schema: Any) -> None:
        self.faults = Faults()
        self._args = shapes.of(schema) if isinstance(schema, Mapping) else None

    def look(self, node: Node, scope: Mapping[str, Shape]) -> Shape:
        """The shape of a part; what is wrong below it is kept."""
        match node:
            case Literal(value):
                return (
                    None
                    if value is None or isinstance(value, bytes)
                    else shapes.plain(shapes.name_type(value))
                )
            case Name(name):
                return self._variable(name, scope)
            case Select(of, name):
                return self._select(node, of, name, scope)
            case Index(of, Literal(str(name))):
                return self._select(node, of, name, scope)
            case Index(of, key):
                self.look(key, scope)
                return shapes.items(self._lists(self.look(of, scope)))
            case Macro():
                return self._macro(node, scope)
            case Call():
                return self._call(node, scope)
            case Items(items):
                found = [self.look(item, scope) for item in items]
                return shapes.listing(
                    None if None in found else [one for shape in found for one in shape or ()]
                )
            case Entries(entries):
                for key, value in entries:
                    self.look(key, scope)
                    self.look(value, scope)
        return None

    def _variable(self, name: str, scope: Mapping[str, Shape]) -> Shape:
        if name in scope:
            return scope[name]
        return self._args if name == "args" else shapes.of(_VARIABLES.get(name))

    def _lists(self, shape: Shape) -> Shape:
        return shape if shapes.types(shape) == {"array"} else None

    def _select(self, node: Node, of: Node, name: str, scope: Mapping[str, Shape]) -> Shape:
        shape = self.look(of, scope)
        try:
            return shapes.field(shape, name)
        except Unknown as unknown:
            near = nearest.suggest(name, unknown.names)
            if unknown.names:
                some = ", ".join(sorted(unknown.names)[:8])
                text = f"{write(node)}: there is no such field; {near or f'there are {some}'}"
            else:
                text = f"{write(node)}: {write(of)} is {_say(shapes.types(shape))} and has no fields"
            self.faults.names.append(text)
            return None

    def _macro(self, node: Macro, scope: Mapping[str, Shape]) -> Shape:
        walked = self.look(node.of, scope)
        kinds = shapes.types(walked)
        if kinds is not None and not kinds & {"array", "object", "null"}:
            self.faults.comparisons.append(f"{write(node.of)} is {_say(kinds)}; {node.kind} walks a list")
            walked = None
        inside = {**scope, node.variable: shapes.items(walked)}
        bodies = [self.look(part, inside) for part in node.body]
        if node.kind == "filter":
            return walked
        return shapes.listing(bodies[-1]) if node.kind == "map" else shapes.plain("boolean")

    def _call(self, node: Call, scope: Mapping[str, Shape]) -> Shape:
        of = self.look(node.of, scope) if node.of is not None else None
        found = [self.look(argument, scope) for argument in node.arguments]
        if node.name in _COMPARISONS:
            self._compare(node, found)
            return shapes.plain("boolean")
        if node.name == "in":
            self._check_in(node, found)
            return shapes.plain("boolean")
        kinds = shapes.types(of)
        if node.name in _TEXT_METHODS and node.of is not None and kinds is not None and "string" not in kinds:
            self.faults.comparisons.append(f"{write(node.of)} is {_say(kinds)}; {node.name} wants a text")
        return shapes.plain(_MAKES[node.name]) if node.name in _MAKES else None

    def _compare(self, node: Call, found: list[Shape]) -> None:
        (left, right), (one, other) = node.arguments, found
        kinds, others = shapes.types(one), shapes.types(other)
        if kinds is not None and others is not None and not kinds & others:
            self.faults.comparisons.append(
                f"{write(left)} is {_say(kinds)}, {write(right)} is {_say(others)}: {node.name} can't compare them"
            )
        elif node.name in ("==", "!="):
            self._check_words(left, one, right)
            self._check_words(right, other, left)

    def _check_words(self, node: Node, shape: Shape, other: Node) -> None:
        allowed = shapes.words(shape)
        if allowed is None or not isinstance(other, Literal) or other.value is None or other.value in allowed:
            return
        words = [str(word) for word in allowed]
        near = nearest.suggest(str(other.value), words) or f"it is one of {', '.join(words[:8])}"
        self.faults.comparisons.append(f"{write(node)} is never {write(other)}; {near}")

    def _check_in(self, node: Call, found: list[Shape]) -> None:
        (left, right), (one, other) = node.arguments, found
        if isinstance(right, Items):
            for item in right.items:
                self._compare(Call("==", (left, item)), [one, self.look(item, {})])
        elif isinstance(left, Literal) and isinstance(left.value, str) and shapes.types(other) == {"object"}:
            self._select(Index(right, left), right, left.value, {})
        elif shapes.types(other) == {"array"}:
            kinds, others = shapes.types(one), shapes.types(shapes.items(other))
            if kinds is not None and others is not None and not kinds & others:
                self.faults.comparisons.append(
                    f"{write(left)} is {_say(kinds)}, {write(right)} holds {_say(others)}: never in it"
                )


def _say(kinds: set[str] | None) -> str:
    return " or ".join(shapes.ARTICLES.get(kind, kind) for kind in sorted(kinds or ()))
