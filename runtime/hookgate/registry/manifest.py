"""A registry as the portal serves it: parsed, verified and compiled.

A manifest is used as a whole or not at all: `parse` raises `ManifestInvalid` for anything that it
doesn't understand, and the runtime then treats the agent as one without a registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from hookgate import canonical
from hookgate.catalogue import ATTACHED, CATALOGUE, GATE, CatalogueEntry, ParamsInvalid
from hookgate.context import ToolFacts
from hookgate.events import BLOCKING_POINTS, HookEvent
from hookgate.matching import matching, published, work
from hookgate.registry.reading import ManifestInvalid, Reader
from hookgate.spec import Handler, HookSpec, OnError

__all__ = ["GATE_PRIORITY", "SCHEMA", "Manifest", "ManifestInvalid", "manifest_digest", "parse"]

SCHEMA: Final = "hookgate.registry/1"
GATE_PRIORITY: Final = 900
# The time zone of an organization that names none.
UTC: Final = "UTC"
SURFACES: Final = ("chat", "api", "dag", "subagent", "workflow", "eval")
_POINTS: Final = frozenset(point.value for point in HookEvent)
_OUTSIDE_DIGEST: Final = ("digest", "revision", "state", "surface")


@dataclass(frozen=True, slots=True)
class AgentRef:
    """Whose registry it is."""

    id: str
    slug: str
    organization: str


@dataclass(frozen=True, slots=True)
class State:
    """The switches that hold now; not part of the digest."""

    read_only: bool = False
    halted: bool = False
    reason: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Freshness:
    """Seconds after which a runtime asks again, and after which it may run nothing."""

    revalidate_after_seconds: int = 15
    max_stale_seconds: int = 300


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that a connector or the agent names. ``redact`` are argument paths."""

    name: str
    connector: str | None
    writes: bool
    requires_confirmation: bool
    redact: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trigger:
    """A declared gate entry: it catches the calls that its filter and its condition both match."""

    matches_tool: matching.Predicate | None
    condition: matching.Condition | None
    policy: str | None
    channel: str | None

    @property
    def bare(self) -> bool:
        """Without filter and condition it catches nothing by itself: it says whom to ask where the gate
        fires anyway. A plain ``feishu_gate`` means that."""
        return self.matches_tool is None and self.condition is None

    def catches_tool(self, name: str) -> bool:
        """Whether its filter lets this tool through; its condition is still to be asked."""
        return self.matches_tool is None or self.matches_tool(name)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that one agent runs on one surface."""

    agent: AgentRef
    surface: str
    revision: int
    digest: str
    bypass: bool
    state: State
    freshness: Freshness
    unlisted_tools: Literal["allow", "confirm", "deny"]
    require_confirmation_for_all: bool
    may_delegate_to: tuple[str, ...]
    tools: Mapping[str, ToolSpec]
    hooks: tuple[HookSpec, ...]
    triggers: tuple[Trigger, ...] = field(default=())
    time_zone: str = UTC

    def find_tool(self, name: str) -> ToolSpec | None:
        """The tool's own entry, else its connector's ``CONNECTOR__*``, else None."""
        tool = self.tools.get(name)
        if tool is None and "__" in name:
            tool = self.tools.get(name.split("__", 1)[0] + "__*")
        return tool

    def tool_facts(self, name: str) -> ToolFacts:
        """What the registry says about a tool. One that nobody lists counts as writing, and as one that
        needs approval where ``unlisted_tools`` is ``confirm``."""
        connector, separator, action = name.partition("__")
        spec = self.find_tool(name)
        return ToolFacts(
            name=name,
            connector=(spec and spec.connector) or (connector if separator else None),
            action=action if separator else name,
            writes=spec is None or spec.writes,
            requires_confirmation=self.unlisted_tools == "confirm"
            if spec is None
            else spec.requires_confirmation,
            redact=() if spec is None else spec.redact,
            listed=spec is not None,
        )


def manifest_digest(document: Mapping[str, Any]) -> str:
    """The digest of a manifest: over everything but itself, ``revision``, ``state``, ``surface`` and
    every ``id`` key at any depth, so that equal declarations agree on any database. Raises NotCanonical."""
    covered = {key: value for key, value in document.items() if key not in _OUTSIDE_DIGEST}
    return canonical.digest(_drop_ids(covered))


def _drop_ids(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _drop_ids(item) for key, item in value.items() if key != "id"}
    if isinstance(value, list):
        return [_drop_ids(item) for item in value]
    return value


def parse(document: Any) -> Manifest:
    """Read a manifest. Raises ManifestInvalid with the path of the first thing that is wrong."""
    top = Reader.of(document)
    if top.text("schema") != SCHEMA:
        top.fail("schema", f"this runtime reads {SCHEMA}; upgrade the hookgate package")
    try:
        expected = manifest_digest(document)
    except canonical.NotCanonical as error:
        raise ManifestInvalid(error.path, error.message) from None
    if top.text("digest") != expected:
        top.fail("digest", "does not belong to this content")
    surface = top.choice("surface", SURFACES)
    bypass = top.flag("bypass")
    if bypass != (surface == "eval"):
        top.fail("bypass", "holds on surface eval and on no other")
    hooks = tuple(_read_hook(item) for item in top.objects("hooks"))
    _check_hooks(top, hooks, bypass=bypass)
    return Manifest(
        agent=_read_agent(top.object("agent")),
        surface=surface,
        revision=top.integer("revision", 0),
        digest=expected,
        bypass=bypass,
        state=read_state(top.object("state")),
        freshness=_read_freshness(top.object("freshness")),
        unlisted_tools=top.choice("unlisted_tools", ("allow", "confirm", "deny")),  # type: ignore[arg-type]
        require_confirmation_for_all=top.flag("require_confirmation_for_all"),
        may_delegate_to=top.texts("may_delegate_to"),
        tools={tool.name: tool for tool in map(_read_tool, top.objects("tools"))},
        hooks=hooks,
        triggers=() if bypass else _read_triggers(top, hooks),
        time_zone=top.optional_text("time_zone") or UTC,
    )


def _read_agent(agent: Reader) -> AgentRef:
    return AgentRef(agent.text("id"), agent.text("slug"), agent.text("organization"))


def read_state(state: Reader) -> State:
    """The switches in a manifest or in an event. Raises ManifestInvalid."""
    return State(
        state.flag("read_only"),
        state.flag("halted"),
        state.optional_text("reason"),
        state.optional_text("until"),
    )


def _read_freshness(freshness: Reader) -> Freshness:
    return Freshness(
        freshness.integer("revalidate_after_seconds", 1, 3600),
        freshness.integer("max_stale_seconds", 15, 86_400),
    )


def _read_tool(tool: Reader) -> ToolSpec:
    return ToolSpec(
        name=tool.text("name"),
        connector=tool.optional_text("connector"),
        writes=tool.flag("writes"),
        requires_confirmation=tool.flag("requires_confirmation"),
        redact=tool.texts("redact", optional=True),
    )


def _read_hook(hook: Reader) -> HookSpec:
    handler = _read_handler(hook)
    name = hook.text("name")
    entry = None if handler else CATALOGUE.get(name)
    if handler is None and (entry is None or entry.spelling_of):
        hook.fail("name", f"unknown hook {name!r}; upgrade the hookgate package")
    points = _read_points(hook, entry)
    if len(points) > 1 and handler:
        hook.fail("points", "an event handler has one")
    tool_filter, matcher, when = map(hook.optional_text, ("tool_filter", "matcher", "when"))
    return HookSpec(
        id=hook.text("id"),
        name=name,
        points=points,
        priority=hook.integer("priority", 0, GATE_PRIORITY),
        on_error=_read_on_error(hook, entry, points),
        mode=hook.choice("mode", ("enforce", "observe"), default="enforce"),  # type: ignore[arg-type]
        timeout_seconds=hook.optional_seconds("timeout_seconds"),
        params=_read_params(hook, entry),
        handler=handler,
        source=hook.choice("source", ("auto", "class_hooks", "events")),
        tool_filter=tool_filter,
        matcher=matcher,
        when=when,
        matches_tool=hook.compile("tool_filter", matching.compile_tool_filter, tool_filter),
        matches_subject=hook.compile("matcher", published.compile_published_matcher, matcher),
        condition=_read_condition(hook, when),
    )


def _read_condition(item: Reader, when: str | None) -> matching.Condition | None:
    try:
        walks = work.read_walks(item.value.get("walks"))
    except ValueError as error:
        item.fail("walks", str(error))
    return item.compile("when", lambda source: matching.compile_condition(source, walks), when)


def _read_handler(hook: Reader) -> Handler | None:
    if hook.value.get("handler") is None:
        return None
    handler = hook.object("handler")
    kind = handler.text("type")
    if kind != "python":
        handler.fail("type", f"this runtime can't run handlers of type {kind!r}")
    return Handler(kind, handler.text("target"), handler.optional_seconds("timeout"))


def _read_points(hook: Reader, entry: CatalogueEntry | None) -> tuple[HookEvent, ...]:
    points: list[HookEvent] = []
    for name in hook.texts("points"):
        if name not in _POINTS or (entry and name not in entry.points):
            hook.fail("points", f"{name!r} is not a point of this hook")
        points.append(HookEvent(name))
    if not points:
        hook.fail("points", "a hook without a point would never run")
    return tuple(points)


def _read_on_error(hook: Reader, entry: CatalogueEntry | None, points: tuple[HookEvent, ...]) -> OnError:
    default = entry.on_error if entry else "deny" if points[0] in BLOCKING_POINTS else "allow"
    return hook.choice("on_error", ("deny", "allow"), default=default)  # type: ignore[return-value]


def _read_params(hook: Reader, entry: CatalogueEntry | None) -> Mapping[str, Any]:
    params = hook.object("params").value if hook.value.get("params") is not None else {}
    if entry is None:
        return params
    try:
        return entry.validate_params(params, in_manifest=True)
    except ParamsInvalid as error:
        first = error.errors[0]
        return hook.fail(f"params.{first['path']}" if first["path"] else "params", first["message"])


def _check_hooks(top: Reader, hooks: tuple[HookSpec, ...], *, bypass: bool) -> None:
    if bypass:
        if hooks:
            top.fail("hooks", "surface eval runs none")
        return
    names = [hook.name for hook in hooks if hook.handler is None]
    for name in sorted(ATTACHED):
        if names.count(name) != 1:
            top.fail("hooks", f"{name} is attached to every agent exactly once, found {names.count(name)}")
    for index, hook in enumerate(hooks):
        where = f"hooks[{index}]"
        if hook.handler is None and hook.name in ATTACHED:
            if hook.on_error != "deny" or hook.mode != "enforce":
                top.fail(where, f"{hook.name} is always enforced")
            if hook.name != GATE and (hook.tool_filter or hook.when or hook.matcher):
                top.fail(where, f"{hook.name} holds for every tool")
        if (hook.name == GATE and hook.handler is None) != (hook.priority == GATE_PRIORITY):
            top.fail(
                f"{where}.priority", f"{GATE_PRIORITY} is the gate's, which is last; others have 0 to 899"
            )


def _read_triggers(top: Reader, hooks: tuple[HookSpec, ...]) -> tuple[Trigger, ...]:
    """The gate's declared entries: ``params.triggers``, and a filter or condition on the gate itself."""
    index, gate = next((index, hook) for index, hook in enumerate(hooks) if hook.name == GATE)
    reader = Reader.of(gate.params, f"{top.path}hooks[{index}].params")
    own = Trigger(
        gate.matches_tool, gate.condition, reader.optional_text("policy"), reader.optional_text("channel")
    )
    triggers = [own] if gate.tool_filter or gate.when else []
    return (*triggers, *map(_read_trigger, reader.objects("triggers", optional=True)))


def _read_trigger(item: Reader) -> Trigger:
    return Trigger(
        item.compile("tool_filter", matching.compile_tool_filter, item.optional_text("tool_filter")),
        _read_condition(item, item.optional_text("when")),
        item.optional_text("policy"),
        item.optional_text("channel"),
    )
