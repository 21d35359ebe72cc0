"""Every field of a JSON document, found by walking its JSON Schema: a field that is new there is tested by itself."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True)
class Field:
    """A place in a document, and what the schema says of it."""

    place: tuple[Any, ...]
    schema: Schema
    required: bool = False

    @property
    def path(self) -> str:
        """The place as errors spell it."""
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.place)
        return text.removeprefix(".")

    def is_named_by(self, paths: list[str]) -> bool:
        """Whether one of ``paths`` is this field or lies inside it."""
        return any(path == self.path or path.startswith((f"{self.path}.", f"{self.path}[")) for path in paths)


@dataclass(frozen=True)
class Walker:
    """Walks schemas whose references lead to ``definitions``.

    ``leaves`` are references that it does not follow; ``key`` is what it looks for in an object of many keys.
    """

    definitions: Mapping[str, Schema]
    leaves: frozenset[str] = frozenset()
    key: str = ""

    def choices(self, schema: Schema) -> Iterator[Schema]:
        """The schema that a reference leads to, or each of its alternatives."""
        name = schema.get("$ref", "").rpartition("/")[2]
        if name in self.leaves:
            return
        found = self.definitions[name] if name else schema
        if "anyOf" in found:
            for choice in found["anyOf"]:
                yield from self.choices(choice)
        else:
            yield found

    def fields(self, schema: Schema, place: tuple[Any, ...] = ()) -> Iterator[Field]:
        """Every field at every level, an object before what is in it."""
        for found in self.choices(schema):
            for name, part in found.get("properties", {}).items():
                yield Field((*place, name), part, name in found.get("required", []))
                yield from self.fields(part, (*place, name))
            for key, part in self._inside(found):
                yield Field((*place, key), part)
                yield from self.fields(part, (*place, key))

    def _inside(self, schema: Schema) -> Iterator[tuple[Any, Schema]]:
        if "items" in schema:
            yield 0, schema["items"]
        if self.key and "propertyNames" in schema:
            yield self.key, schema["additionalProperties"]

    def closed(self, schema: Schema) -> Iterator[tuple[Any, ...]]:
        """The places of the objects that take no other keys than their own."""
        for field in [Field((), schema), *self.fields(schema)]:
            if any(choice.get("additionalProperties") is False for choice in self.choices(field.schema)):
                yield field.place


def put(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """``document`` with ``value`` at ``place``."""
    if not place:
        return value
    changed = copy.deepcopy(document)
    set_in(changed, place, value)
    return changed


def set_in(document: Any, place: tuple[Any, ...], value: Any) -> None:
    """Set what is at ``place`` of ``document`` itself."""
    _parent(document, place)[place[-1]] = value


def drop(document: Any, place: tuple[Any, ...]) -> Any:
    """``document`` without what is at ``place``."""
    changed = copy.deepcopy(document)
    del _parent(changed, place)[place[-1]]
    return changed


def _parent(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place[:-1]:
        document = document[key]
    return document
