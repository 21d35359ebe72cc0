"""A condition as a tree."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Node:
    """A part of a condition."""

    def children(self) -> tuple["Node", ...]:
        """The parts that it is made of."""
        return ()


@dataclass(frozen=True)
class Literal(Node):
    """A number, text, bytes, truth value or null; ``value`` is Python's."""

    value: Any


@dataclass(frozen=True)
class Name(Node):
    """A variable."""

    name: str


@dataclass(frozen=True)
class Select(Node):
    """``of.field``."""

    of: Node
    field: str

    def children(self) -> tuple[Node, ...]:
        return (self.of,)


@dataclass(frozen=True)
class Index(Node):
    """``of[key]``."""

    of: Node
    key: Node

    def children(self) -> tuple[Node, ...]:
        return (self.of, self.key)


@dataclass(frozen=True)
class Call(Node):
    """``name(…)``, or ``of.name(…)``. An operator is a call of its sign; ``a ? b : c`` one of ``?:``."""

    name: str
    arguments: tuple[Node, ...]
    of: Node | None = None

    def children(self) -> tuple[Node, ...]:
        return (*((self.of,) if self.of is not None else ()), *self.arguments)


@dataclass(frozen=True)
class Items(Node):
    """``[a, b]``."""

    items: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return self.items


@dataclass(frozen=True)
class Entries(Node):
    """``{k: v}``."""

    entries: tuple[tuple[Node, Node], ...]

    def children(self) -> tuple[Node, ...]:
        return tuple(part for entry in self.entries for part in entry)


@dataclass(frozen=True)
class Macro(Node):
    """``of.kind(variable, body…)``."""

    kind: str
    of: Node
    variable: str
    body: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return (self.of, *self.body)


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it. Not by recursion: `1+1+…` is as deep as it is long."""
    stack = [node]
    while stack:
        found = stack.pop()
        yield found
        stack += reversed(found.children())
