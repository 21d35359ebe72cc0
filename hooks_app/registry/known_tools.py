"""Which tools an agent is known to have, and what a filter or a matcher finds among them. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hookgate.matching import matching

from hooks_app.registry.manifest_inputs import Inputs
from portal.lib import nearest

_GLOB = re.compile(r"[*?\[]")
_NAMES = re.compile(r"[A-Za-z0-9_|]+")
_CLASS = re.compile(r"\[!?\]?[^\]]*\]")


@dataclass(frozen=True)
class KnownTools:
    """The names that an agent's calls may have, as far as anybody has said.

    ``schemas`` has every name, with the JSON Schema of its arguments or null. ``open_connectors`` have an action
    ``*``: every name of theirs is known. ``connectors`` are all that the organization declares. ``own`` says whether
    somebody has named the tools of this very agent: it has ``tools``, or a runtime has announced some.
    """

    schemas: Mapping[str, Mapping[str, Any] | None]
    open_connectors: frozenset[str]
    connectors: frozenset[str]
    own: bool

    def filtered(self, tool_filter: str | None) -> list[str]:
        """The names that a tool filter (one that compiles; null: every tool) lets through, ``CONNECTOR__*`` for those
        of an open connector that nobody has named."""
        if tool_filter is None:
            return [*self.schemas, *self._rest()]
        matches = matching.compile_tool_filter(tool_filter)
        found = [name for name in self.schemas if matches(name)]
        return found + [
            f"{slug}__*" for slug in sorted(self.open_connectors) if _reaches(tool_filter, f"{slug}__")
        ]

    def matched(self, matches: Callable[[str], bool]) -> list[str]:
        """The names that a compiled matcher lets through. What it would say of the unnamed tools of an open connector
        nobody can tell, so that they count."""
        return [name for name in self.schemas if matches(name)] + self._rest()

    def unknown_names(self, matcher: str) -> list[str]:
        """Those names of a matcher that is a list of names (``a|b``) that no known tool has."""
        if not _NAMES.fullmatch(matcher):
            return []
        return [name for name in dict.fromkeys(matcher.split("|")) if name and not self.has(name)]

    def has(self, name: str) -> bool:
        """Whether a tool of this name is known."""
        return name in self.schemas or name.partition("__")[0] in self.open_connectors

    def near(self, pattern: str) -> str:
        """``did you mean …?`` for a filter or name that finds nothing, or an empty text."""
        plain = _GLOB.sub("", _CLASS.sub("", pattern)) or pattern
        found = nearest.find(plain, self.schemas)
        slug, separator, action = plain.partition("__")
        if separator and not found and slug not in self.connectors:
            found = [f"{one}__{action}" for one in nearest.find(slug, self.connectors)]
        return nearest.ask(found)

    def _rest(self) -> list[str]:
        return [f"{slug}__*" for slug in sorted(self.open_connectors)]


def collect(inputs: Inputs) -> KnownTools:
    """What the organization's connectors, the agent's own ``tools`` and its runtimes say."""
    schemas: dict[str, Mapping[str, Any] | None] = dict(inputs.announced)
    for action in inputs.actions:
        if not action.name.endswith("__*"):
            schemas[action.name] = action.schema or schemas.get(action.name)
    for item in inputs.content["tools"]:
        schemas[item["name"]] = item.get("schema") or schemas.get(item["name"])
    return KnownTools(
        schemas=schemas,
        open_connectors=frozenset(
            a.connector for a in inputs.actions if a.connector and a.name.endswith("__*")
        ),
        connectors=inputs.connectors,
        own=bool(inputs.content["tools"] or inputs.announced),
    )


def named_connector(tool_filter: str) -> str | None:
    """The connector that a filter names: what stands before its first ``__``, if there is no glob character in it."""
    slug, separator, _ = tool_filter.partition("__")
    return slug if separator and slug and not _GLOB.search(slug) else None


def _reaches(tool_filter: str, prefix: str) -> bool:
    """Whether the glob can match some text that begins with ``prefix`` and goes on."""
    symbols = _symbols(tool_filter)
    places = _skip({0}, symbols)
    for character in prefix:
        places = _skip({to for place in places for to in _step(place, symbols, character)}, symbols)
    return any(place < len(symbols) for place in places)


def _symbols(pattern: str) -> list[str]:
    return re.findall(r"\[!?\]?[^\]]*\]|.", pattern, re.DOTALL)


def _skip(places: Iterable[int], symbols: list[str]) -> set[int]:
    """The places, and those behind a ``*`` that matches nothing."""
    found = set(places)
    for place in sorted(found):
        while place < len(symbols) and symbols[place] == "*":
            place += 1
            found.add(place)
    return found


def _step(place: int, symbols: list[str], character: str) -> list[int]:
    if place == len(symbols):
        return []
    symbol = symbols[place]
    if symbol == "*":
        return [place]
    if symbol == "?" or symbol == character:
        return [place + 1]
    if len(symbol) > 1 and matching.compile_tool_filter(symbol)(character):
        return [place + 1]
    return []
