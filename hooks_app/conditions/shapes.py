"""What a JSON Schema says of a value, as far as a condition asks: its type, its fields, its items, its words.

A shape is a list of alternatives, each a schema; ``None`` where nothing is said, and whatever is asked of that passes.
"""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
Shape = list[Schema] | None

_MAX_ALTERNATIVES = 50
_MAX_REFERENCES = 20
_NUMBERS = {"integer": "number", "number": "number"}
ARTICLES = {
    "number": "a number", "string": "a text", "boolean": "true or false", "array": "a list", "object": "an object",
    "null": "null",
}  # fmt: skip


class Unknown(Exception):
    """A field that the schema names no such of. ``names`` are those that there are."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names


def of(schema: Any, root: Any = None) -> Shape:
    """The shape that a schema describes; references are looked up in ``root``."""
    return _alternatives(schema, schema if root is None else root, 0)


def _alternatives(schema: Any, root: Any, followed: int) -> Shape:
    if not isinstance(schema, Mapping) or followed > _MAX_REFERENCES:
        return None
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _alternatives(_look_up(reference, root), root, followed + 1)
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            shapes = [_alternatives(part, root, followed + 1) for part in schema[word]]
            found = [one for shape in shapes for one in shape or ()]
            return None if None in shapes or len(found) > _MAX_ALTERNATIVES else found
    if isinstance(schema.get("allOf"), list):
        return _merge(schema, root, followed)
    return [{**schema, _ROOT: root}]


# Where the references of a part are looked up, kept with the part.
_ROOT = "\0root"


def _merge(schema: Schema, root: Any, followed: int) -> Shape:
    merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema["allOf"]:
        shape = _alternatives(part, root, followed + 1)
        if shape is None or len(shape) != 1:
            return None
        properties = {**_mapping(merged.get("properties")), **_mapping(shape[0].get("properties"))}
        merged = {**shape[0], **merged} | ({"properties": properties} if properties else {})
    return [{**merged, _ROOT: root}]


def _look_up(reference: str, root: Any) -> Any:
    found = root
    for step in reference.removeprefix("#").split("/")[1:] if reference.startswith("#") else ["\0"]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def types(shape: Shape) -> set[str] | None:
    """The types that a value of this shape can have, in JSON's words; ``None`` where any is possible."""
    if shape is None:
        return None
    found: set[str] = set()
    for schema in shape:
        said = schema.get("type")
        words = [said] if isinstance(said, str) else said
        if not isinstance(words, list):
            words = [name_type(value) for value in _words(schema) or ()]
            if not words and "properties" in schema:
                words = ["object"]
        if not words or not all(isinstance(word, str) for word in words):
            return None
        found |= {_NUMBERS.get(word, word) for word in words}
    return found


def name_type(value: Any) -> str:
    """JSON's word for the type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def words(shape: Shape) -> list[Any] | None:
    """The values that a shape lists one by one, or ``None``."""
    if not shape:
        return None
    lists = [_words(schema) for schema in shape]
    return None if None in lists else [value for one in lists for value in one or ()]


def _words(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    found = schema.get("enum")
    return found if isinstance(found, list) else None


def field(shape: Shape, name: str) -> Shape:
    """The shape of a field. Raises Unknown where every alternative names its fields, and none this one."""
    if shape is None:
        return None
    found: list[Schema] = []
    known: list[str] = []
    missing = True
    for schema in shape:
        try:
            one = _field(schema, name)
        except Unknown as unknown:
            known += unknown.names
            continue
        missing = False
        if one is None:
            return None
        found += one
    if missing and shape:
        raise Unknown(known)
    return found


def _field(schema: Schema, name: str) -> Shape:
    root = schema[_ROOT]
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        if types([schema]) not in (None, {"object"}, {"object", "null"}):
            raise Unknown([])
        return None
    if name in properties:
        return of(properties[name], root)
    if _mapping(schema.get("patternProperties")):
        # Whether an expression of any dialect matches is not asked: it may.
        return None
    more = schema.get("additionalProperties")
    if more is True or isinstance(more, Mapping):
        return of(more, root)
    raise Unknown([str(one) for one in properties])


def items(shape: Shape) -> Shape:
    """The shape of what a macro hands to its body: a list's items, an object's names."""
    if shape is None:
        return None
    found: list[Schema] = []
    for schema in shape:
        if types([schema]) == {"object"}:
            found.append({"type": "string", _ROOT: schema[_ROOT]})
            continue
        inner = of(schema.get("items"), schema[_ROOT])
        if inner is None:
            return None
        found += inner
    return found


def plain(name: str) -> Shape:
    """The shape of any value of one of JSON's types."""
    return [{"type": name, _ROOT: None}]


def listing(shape: Shape) -> Shape:
    """The shape of a list of such values."""
    return (
        [{"type": "array", "items": {"anyOf": [dict(one) for one in shape]}, _ROOT: None}]
        if shape
        else plain("array")
    )
