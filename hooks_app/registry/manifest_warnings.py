"""What lets a registry be built and is wrong all the same: filters, matchers and conditions that match nothing. Pure.

A gate entry of that kind asks nobody. Where it is written, published or applied it is the error `unmatched_gate`,
unless it says that it is meant (``allow_unmatched``); in a registry that is in force it is a warning, as everything
else here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hookgate.catalogue import CATALOGUE, ParamsInvalid
from hookgate.events import TOOL_POINTS
from hookgate.matching import matching

from hooks_app.conditions import fitting
from hooks_app.registry import known_tools, manifest_hooks
from hooks_app.registry.known_tools import KnownTools
from hooks_app.registry.manifest_inputs import Inputs
from portal.lib.problems import FieldError

UNMATCHED_GATE = "unmatched_gate"


@dataclass(frozen=True)
class Findings:
    """``errors`` are for who saves, publishes or applies; ``warnings`` hold as long as their cause lasts."""

    errors: tuple[FieldError, ...]
    warnings: tuple[FieldError, ...]

    def in_force(self) -> tuple[FieldError, ...]:
        """All of it as it is said of a registry that is in force: warnings."""
        return (*self.errors, *self.warnings)


def find(inputs: Inputs, published: Mapping[str, Any] | None = None) -> Findings:
    """Everything in ``inputs.content`` that matches nothing that is known.

    ``published`` is the content that is published now: what stood there before is no error.
    """
    tools = known_tools.collect(inputs)
    before = [_essence(item) for item in (published or {}).get("class_hooks", ())]
    errors: list[FieldError] = []
    warnings: list[FieldError] = []
    for path, item in _class_hooks(inputs.content):
        for finding, wrong in _check_filter(item, path, tools):
            meant = wrong and _essence(item) not in before
            (errors if meant else warnings).append(finding)
        warnings += _check_condition(item, f"{path}.when", _asked_over(item, tools))
    warnings += _check_matchers(inputs.content, tools)
    return Findings(tuple(errors), tuple(warnings))


def _essence(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in item.items()
        if key not in ("id", "allow_unmatched") and value is not None
    }


def _class_hooks(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for index, item in enumerate(content["class_hooks"]):
        yield f"hooks.class_hooks[{index}]", item


def _check_filter(item: Mapping[str, Any], path: str, tools: KnownTools) -> Iterator[tuple[FieldError, bool]]:
    """What is wrong with an entry's filter, and whether that is an error where it is written."""
    tool_filter = item["tool_filter"]
    # A filter that lets everything through is no mistyped name.
    if tool_filter is None or not tool_filter.strip("*"):
        return
    try:
        if tools.filtered(tool_filter):
            return
    except matching.MatchError:
        return  # the build says so
    gate = manifest_hooks.is_gate(item["name"])
    text = _say(tool_filter, tools, gate=gate)
    if not gate:
        yield FieldError(f"{path}.tool_filter", "unmatched_filter", text), False
        return
    sure = tools.own or known_tools.named_connector(tool_filter) in tools.connectors
    yield FieldError(f"{path}.tool_filter", UNMATCHED_GATE, text), sure and not item.get("allow_unmatched")


def _say(tool_filter: str, tools: KnownTools, *, gate: bool) -> str:
    text = f"{tool_filter!r} matches no known tool" + (", so this entry asks nobody" if gate else "")
    near = tools.near(tool_filter)
    connector = known_tools.named_connector(tool_filter)
    if near:
        text += f"; {near}"
    elif connector is not None and connector not in tools.connectors and not tools.own:
        text += f"; there is no connector {connector!r}, and nobody has said which tools the agent has"
    else:
        text += "; declare the tool or correct the filter"
    return f"{text} (allow_unmatched: true says that it is meant)" if gate else text


def _asked_over(item: Mapping[str, Any], tools: KnownTools) -> dict[str, Any]:
    """The schemas of the arguments that a class hook's condition is asked over, by tool."""
    entry = CATALOGUE.get(item["name"])
    try:
        if entry is None or not TOOL_POINTS.intersection(
            entry.select_points(entry.validate_params(item["params"]))
        ):
            return {}
        return {name: tools.schemas.get(name) for name in tools.filtered(item["tool_filter"])}
    except (matching.MatchError, ParamsInvalid):
        return {}  # the build says so


def _matched(item: Mapping[str, Any], tools: KnownTools) -> dict[str, Any]:
    """Likewise, of an event handler."""
    try:
        matches = matching.compile_matcher(item["matcher"])
        names = set(tools.filtered(item["tool_filter"]))
        if matches is not None:
            names &= set(tools.matched(matches))
    except matching.MatchError:
        return {}
    return {name: tools.schemas.get(name) for name in sorted(names)}


def _check_condition(item: Mapping[str, Any], path: str, schemas: Mapping[str, Any]) -> list[FieldError]:
    if item["when"] is None:
        return []
    return [FieldError(path, "condition_mismatch", text) for text in fitting.check(item["when"], schemas)]


def _check_matchers(content: Mapping[str, Any], tools: KnownTools) -> list[FieldError]:
    found: dict[str, FieldError] = {}
    for item in content["events"]:
        group = f"hooks.events.{item['event']}[{item['group']}]"
        asked_over = _matched(item, tools) if item["event"] in TOOL_POINTS else {}
        for one in _check_condition(item, f"{group}.hooks[{item['index']}].when", asked_over):
            found.setdefault(f"{one.path} {one.message}", one)
        for path, text in _check_handler(item, group, tools):
            found.setdefault(path, FieldError(path, "unmatched_filter", text))
    return list(found.values())


def _check_handler(item: Mapping[str, Any], group: str, tools: KnownTools) -> Iterator[tuple[str, str]]:
    if item["event"] not in TOOL_POINTS:
        return
    matcher = item["matcher"]
    try:
        matches = matching.compile_matcher(matcher)
        for name in tools.unknown_names(matcher) if matches is not None else ():
            near = tools.near(name)
            yield f"{group}.matcher", f"{name!r} is no known tool; {near or 'declare it or correct the name'}"
        if matches is not None and not tools.matched(matches):
            yield (
                f"{group}.matcher",
                f"{matcher!r} matches no known tool; {tools.near(matcher) or 'correct it'}",
            )
        tool_filter = item["tool_filter"]
        if tool_filter is not None and tool_filter.strip("*") and not tools.filtered(tool_filter):
            yield f"{group}.hooks[{item['index']}].tool_filter", _say(tool_filter, tools, gate=False)
    except matching.MatchError:
        return  # the build says so
