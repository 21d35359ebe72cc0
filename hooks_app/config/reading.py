"""From a file's bytes to plain data: YAML or JSON, bounded, without anything that a reader could miss.

YAML is read as the JSON that it spells: no dates, no tags, no key twice. Aliases and merge keys work, but what they
expand to is bounded.
"""

import sys
from pathlib import Path
from typing import Any

import yaml
from hookgate import canonical
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from hooks_app.config.errors import ConfigInvalid, write_path
from portal.lib.problems import FieldError

MAX_BYTES = 4 * 1024 * 1024
MAX_VALUES = 300_000
MAX_DEPTH = 48

_MERGE = "tag:yaml.org,2002:merge"
_PLAIN = {
    f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp")
}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_file(path: str) -> Any:
    """The document in the file at ``path``. Raises :class:`ConfigInvalid`."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _refused(path, f"can't be read: {getattr(error, 'strerror', None) or error}") from None
    return loads(data, json=path.endswith(".json"))


def read_stdin() -> Any:
    """The document on standard input. Raises :class:`ConfigInvalid`."""
    return loads(sys.stdin.buffer.read(MAX_BYTES + 1))


def loads(data: bytes, *, json: bool = False) -> Any:
    """The document in ``data``: YAML, or strict JSON. Raises :class:`ConfigInvalid` for everything at fault."""
    if len(data) > MAX_BYTES:
        raise _refused(
            "(document)", f"has more than {MAX_BYTES // 1024 // 1024} MiB; split it by organization"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused("(document)", f"is not UTF-8 (byte {error.start})") from None
    try:
        if json:
            return canonical.loads(text, max_depth=MAX_DEPTH)
        value = _read_yaml(text)
        canonical.check(value, max_depth=MAX_DEPTH)
    except canonical.NotCanonical as error:
        raise _refused(error.path or "(document)", error.message) from None
    return value


def _read_yaml(text: str) -> Any:
    try:
        _bound(text)
        loader = _LOADER(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "(document)"
        raise _refused(where, f"is not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise _refused("(document)", f"is not YAML: {str(error).splitlines()[0]}") from None
    if node is None:
        raise _refused("(document)", "is empty; start with apiVersion: hookgate/v1")
    reader = _Plain(loader)
    value = reader.read(node, ())
    if reader.errors:
        raise ConfigInvalid(reader.errors)
    return value


def _bound(text: str) -> None:
    """Refuse what would overrun the composer's stack, or keep it busy for minutes, before it composes anything."""
    depth = 0
    for seen, event in enumerate(yaml.parse(text, Loader=_LOADER)):
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _refused(_line(event), f"is nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            depth -= 1
        # Each value comes with one event for itself, one for its key, and one for its end.
        if seen > 3 * MAX_VALUES:
            raise _too_much()


class _Plain:
    """Turns composed nodes into plain data. Aliased nodes are copied, and every copy counts."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.errors: list[FieldError] = []
        self.left = MAX_VALUES

    def read(self, node: Node, path: tuple[int | str, ...]) -> Any:
        self._spend(path)
        if node.tag not in _PLAIN:
            name = node.tag.removeprefix("tag:yaml.org,2002:")
            self._fail(path, f"the tag {name} is not allowed; write plain YAML")
            return None
        if isinstance(node, MappingNode):
            return self._read_object(node, path)
        if isinstance(node, SequenceNode):
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._read_scalar(node, path)

    def _spend(self, path: tuple[int | str, ...]) -> None:
        self.left -= 1
        # An alias inside its own anchor never ends: the depth says so before the budget does.
        if self.left < 0 or len(path) > MAX_DEPTH:
            raise _too_much()

    def _read_object(self, node: MappingNode, path: tuple[int | str, ...]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                # The first of several merged objects wins, and an object's own keys win over all.
                merged = {**self._read_merged(value_node, path), **merged}
                continue
            key = self._read_key(key_node, path)
            if key in own:
                self._fail((*path, key), f"appears twice in its object ({_line(key_node)})")
            own[key] = self.read(value_node, (*path, key))
        return {**merged, **own}

    def _read_merged(self, node: Node, path: tuple[int | str, ...]) -> dict[str, Any]:
        parts = node.value if isinstance(node, SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for part in parts:
            self._spend(path)
            value = self.read(part, (*path, "<<"))
            if isinstance(value, dict):
                merged = {**value, **merged}
            else:
                self._fail(path, "<< takes an object, or a list of objects")
        return merged

    def _read_key(self, node: Node, path: tuple[int | str, ...]) -> str:
        if isinstance(node, ScalarNode) and node.tag == "tag:yaml.org,2002:str":
            return str(node.value)
        self._fail(path, f"the key in {_line(node)} must be a text; put it in quotes")
        return f"({_line(node)})"

    def _read_scalar(self, node: Node, path: tuple[int | str, ...]) -> Any:
        if node.tag == "tag:yaml.org,2002:timestamp":
            return node.value
        try:
            return self.loader.construct_object(node)
        except (ValueError, yaml.YAMLError):
            self._fail(path, "is not a value; put it in quotes if it is a text")
            return None

    def _fail(self, path: tuple[int | str, ...], message: str) -> None:
        self.errors.append(FieldError(write_path(path), "invalid", message))


def _too_much() -> ConfigInvalid:
    return _refused("(document)", "expands to too much; write fewer aliases, or split it by organization")


def _line(at: Any) -> str:
    """Where a node or an event begins."""
    return f"line {at.start_mark.line + 1}"


def _refused(path: str, message: str) -> ConfigInvalid:
    return ConfigInvalid([FieldError(path, "invalid", message)])
