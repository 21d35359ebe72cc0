"""Declared hooks, checked and put into the form of the manifest. Pure."""

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from hookgate.catalogue import ATTACHED, CATALOGUE, GATE, CatalogueEntry, ParamsInvalid
from hookgate.events import BLOCKING_POINTS, TOOL_POINTS, HookEvent
from hookgate.matching import matching, work
from hookgate.registry.manifest import GATE_PRIORITY
from typing_extensions import TypedDict

from hooks_app.conditions import walks
from hooks_app.registry.manifest_inputs import Faults, Inputs
from portal.lib import nearest
from portal.lib.json_types import Object, one_of

EVENT_PRIORITY = 500
MAX_TIMEOUT = 86_400  # seconds
HANDLER_KEYS = ("type", "target", "timeout")
_TARGET = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z")


class ManifestHook(TypedDict):
    """A hook that the agent runs."""

    id: str
    name: str
    points: list[str]
    priority: int
    tool_filter: str | None
    matcher: str | None
    when: str | None
    on_error: Annotated[str, one_of(("deny", "allow"))]
    mode: Annotated[str, one_of(("enforce", "observe"))]
    timeout_seconds: float | None
    params: Object
    handler: Object | None
    source: Annotated[str, one_of(("auto", "class_hooks", "events"))]
    walks: NotRequired[list[list[str]]]


@dataclass(frozen=True)
class GateEntry:
    """One declared gate entry. ``channel`` is the one that its cards go to, resolved where its name implies it."""

    path: str
    name: str
    tool_filter: str | None
    when: str | None
    policy: str | None
    channel: str | None

    @property
    def walks(self) -> work.Walks | None:
        """What bounds the work of its condition, where macros are nested in it; null for one that can't be read."""
        return _find_walks(self.when)

    @property
    def bare(self) -> bool:
        """Without filter and condition it gates nothing: it says where the calls go that are gated anyway."""
        return self.tool_filter is None and self.when is None

    def to_json(self) -> dict[str, Any]:
        """The entry of ``params.triggers`` in the manifest."""
        return {
            "name": self.name,
            "tool_filter": self.tool_filter,
            "when": self.when,
            "policy": self.policy,
            "channel": self.channel,
            **({} if self.walks is None else {"walks": _write_walks(self.walks)}),
        }


@dataclass(frozen=True)
class Compiled:
    """The manifest's ``hooks``, in the order in which they run, and the gate's declared entries."""

    hooks: list[ManifestHook]
    triggers: list[GateEntry]


def compile_hooks(inputs: Inputs, faults: Faults) -> Compiled:
    """Check every declaration of ``inputs.content`` and order what runs; every reason against it goes to ``faults``."""
    declared: list[tuple[int, ManifestHook]] = []
    triggers: list[GateEntry] = []
    attached: dict[str, str] = {}
    for index, item in enumerate(inputs.content["class_hooks"]):
        path = f"hooks.class_hooks[{index}]"
        entry = CATALOGUE.get(item["name"])
        if entry is None:
            faults.add(f"{path}.name", "unknown_hook", _unknown_hook(item["name"]))
        elif is_gate(entry.name):
            triggers.append(_read_trigger(inputs, item, path, entry, faults))
        else:
            if entry.attached and entry.name in attached:
                faults.add(
                    path, "duplicate_hook", f"{entry.name} is declared at {attached[entry.name]} already"
                )
            attached.setdefault(entry.name, path)
            hook = _read_class_hook(inputs, item, path, entry, faults)
            if item["enabled"] or entry.attached:
                declared.append((index, hook))
    declared += _read_events(inputs, faults, first=len(inputs.content["class_hooks"]))
    for name in sorted(ATTACHED - attached.keys() - {GATE}):
        declared.append((-1, _attach(inputs, CATALOGUE[name])))
    declared.sort(key=lambda pair: (pair[1]["priority"], pair[0]))
    gate = _attach(inputs, CATALOGUE[GATE])
    gate["params"] = {"triggers": [trigger.to_json() for trigger in triggers]} if triggers else {}
    return Compiled([hook for _, hook in declared] + [gate], triggers)


def _unknown_hook(name: str) -> str:
    near = nearest.suggest(name, CATALOGUE)
    return f"no hook is called {name!r}; {near or 'there are ' + ', '.join(sorted(CATALOGUE))}"


def is_gate(name: str | None) -> bool:
    """Whether a declaration of this name is a gate entry, in whichever spelling."""
    entry = CATALOGUE.get(name) if name else None
    return entry is not None and GATE in (entry.name, entry.spelling_of)


def _attached_id(inputs: Inputs, name: str) -> str:
    return str(uuid.uuid5(inputs.agent_id, name))


def _attach(inputs: Inputs, entry: CatalogueEntry) -> ManifestHook:
    """A hook that every agent has, with its defaults."""
    params = entry.validate_params({})
    return _write(
        id=_attached_id(inputs, entry.name),
        name=entry.name,
        points=[point.value for point in entry.select_points(params)],
        priority=GATE_PRIORITY if entry.name == GATE else entry.priority,
        on_error="deny",
        params=params,
        source="auto",
    )


def _write(
    *,
    id: str,
    name: str,
    points: list[str],
    priority: int,
    on_error: str,
    source: str,
    params: Mapping[str, Any] | None = None,
    declared: Mapping[str, Any] | None = None,
    matcher: str | None = None,
    handler: dict[str, Any] | None = None,
) -> ManifestHook:
    """One entry of the manifest's ``hooks``, every key of the contract present."""
    declared = declared or {}
    written: ManifestHook = {
        "id": id,
        "name": name,
        "points": points,
        "priority": priority,
        "tool_filter": declared.get("tool_filter"),
        "matcher": matcher,
        "when": declared.get("when"),
        "on_error": on_error,
        "mode": declared.get("mode") or "enforce",
        "timeout_seconds": declared.get("timeout_seconds"),
        "params": dict(params or {}),
        "handler": handler,
        "source": source,
    }
    # Only where it says something, so that the digest of what stood before stays.
    if (found := _find_walks(declared.get("when"))) is not None:
        written["walks"] = _write_walks(found)
    return written


def _find_walks(when: str | None) -> work.Walks | None:
    if when is None:
        return None
    try:
        return walks.find(when)
    except matching.MatchError:
        return None  # `_check_common` says so


def _write_walks(found: work.Walks) -> list[list[str]]:
    return [list(chain) for chain in found]


def _read_trigger(
    inputs: Inputs, item: Mapping[str, Any], path: str, entry: CatalogueEntry, faults: Faults
) -> GateEntry:
    _check_protected(item, path, entry, faults)
    _check_common(item, path, faults)
    if item["timeout_seconds"] is not None:
        faults.add(
            f"{path}.timeout_seconds",
            "not_applicable",
            "how long people have is the approval policy's timeout_seconds; leave it out here",
        )
    params = _check_params(inputs, item, path, entry, faults)
    channel = params.get("channel") or _implied_channel(inputs, path, entry, faults)
    return GateEntry(path, item["name"], item["tool_filter"], item["when"], params.get("policy"), channel)


def _implied_channel(inputs: Inputs, path: str, entry: CatalogueEntry, faults: Faults) -> str | None:
    """A platform's spelling means the organization's only enabled channel of that type, where nothing else is named."""
    content = inputs.content
    if (
        entry.channel_type is None
        or content["approval_channels"]
        or content["confirmation_mode"] == "inline_only"
    ):
        return None
    found = sorted(c.slug for c in inputs.channels if c.enabled and c.type == entry.channel_type)
    if len(found) > 1:
        faults.add(
            f"{path}.params.channel",
            "ambiguous_channel",
            f"{entry.name} could mean {', '.join(found)}; name one here, or set the agent's approval_channels",
        )
        return None
    return found[0] if found else None


def _read_class_hook(
    inputs: Inputs, item: Mapping[str, Any], path: str, entry: CatalogueEntry, faults: Faults
) -> ManifestHook:
    if entry.attached:
        _check_protected(item, path, entry, faults)
    _check_common(item, path, faults)
    params = _check_params(inputs, item, path, entry, faults)
    points = [point.value for point in entry.select_points(params)]
    if not entry.attached:
        _check_tool_filter_applies(item, path, points, faults)
    return _write(
        id=_attached_id(inputs, entry.name) if entry.attached else item["id"],
        name=entry.name,
        points=points,
        priority=entry.priority if item["priority"] is None else item["priority"],
        on_error=item["on_error"] or entry.on_error,
        params=params,
        source="auto" if entry.attached else "class_hooks",
        declared=item,
    )


def _check_protected(item: Mapping[str, Any], path: str, entry: CatalogueEntry, faults: Faults) -> None:
    """The attached hooks hold for every call of every agent: a declaration may set their parameters, no more."""
    gate = is_gate(entry.name)
    forbidden = [
        ("enabled", item["enabled"] is False),
        ("priority", item["priority"] is not None),
        ("on_error", item["on_error"] == "allow"),
        ("mode", item["mode"] == "observe"),
        ("tool_filter", not gate and item["tool_filter"] is not None),
        ("when", not gate and item["when"] is not None),
    ]
    for key, wrong in forbidden:
        if wrong:
            name = GATE if gate else entry.name
            faults.add(
                f"{path}.{key}", "protected_hook", f"{name} is attached to every agent; leave {key} out"
            )


def _check_params(
    inputs: Inputs, item: Mapping[str, Any], path: str, entry: CatalogueEntry, faults: Faults
) -> dict[str, Any]:
    try:
        params = entry.validate_params(item["params"])
    except ParamsInvalid as error:
        for one in error.errors:
            where = f"{path}.params.{one['path']}" if one["path"] else f"{path}.params"
            faults.add(where, one["code"], one["message"])
        return {}
    channel = params.get("channel")
    if channel is not None and inputs.find_channel(channel) is None:
        near = nearest.suggest(channel, (one.slug for one in inputs.channels))
        text = f"there is no channel {channel!r}; {near or 'name one of the organization’s'}"
        faults.add(f"{path}.params.channel", "unknown_channel", text)
    return params


def _check_common(item: Mapping[str, Any], path: str, faults: Faults) -> None:
    """What class hooks and event handlers share."""
    _check_compiles(matching.compile_tool_filter, item["tool_filter"], f"{path}.tool_filter", faults)
    _check_compiles(walks.compile, item["when"], f"{path}.when", faults)
    priority = item["priority"]
    if priority is not None and not 0 <= priority < GATE_PRIORITY:
        faults.add(
            f"{path}.priority", "invalid", f"use 0 to {GATE_PRIORITY - 1}; {GATE_PRIORITY} is the gate's"
        )
    if item["on_error"] not in (None, "deny", "allow"):
        faults.add(f"{path}.on_error", "invalid", "use deny or allow")
    if item["mode"] not in ("enforce", "observe"):
        faults.add(f"{path}.mode", "invalid", "use enforce or observe")
    _check_seconds(item["timeout_seconds"], f"{path}.timeout_seconds", faults)


def _check_compiles(compiler: Callable[[str], object], source: str | None, path: str, faults: Faults) -> None:
    if source is None:
        return
    try:
        compiler(source)
    except matching.MatchError as error:
        faults.add(path, "does_not_compile", error.message)


def _check_seconds(value: Any, path: str, faults: Faults) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_TIMEOUT:
        faults.add(path, "invalid", f"use a number of seconds above 0, at most {MAX_TIMEOUT}")


def _check_tool_filter_applies(item: Mapping[str, Any], path: str, points: list[str], faults: Faults) -> None:
    if item["tool_filter"] is not None and not TOOL_POINTS.intersection(points):
        faults.add(
            f"{path}.tool_filter",
            "not_applicable",
            f"no tool is in hand at {', '.join(points)}; leave it out, or use when",
        )


def _read_events(inputs: Inputs, faults: Faults, *, first: int) -> list[tuple[int, ManifestHook]]:
    """The user-defined handlers, numbered after the class hooks."""
    hooks: list[tuple[int, ManifestHook]] = []
    for item in inputs.content["events"]:
        name = f"{item['event']}[{item['group']}].hooks[{item['index']}]"
        path = f"hooks.events.{name}"
        if item["event"] not in list(HookEvent):
            near = nearest.suggest(item["event"], HookEvent) or f"use {', '.join(HookEvent)}"
            faults.add(
                f"hooks.events.{item['event']}", "unknown_event", f"there is no such hook point; {near}"
            )
            continue
        matcher_path = f"hooks.events.{item['event']}[{item['group']}].matcher"
        _check_compiles(matching.compile_matcher, item["matcher"], matcher_path, faults)
        _check_common(item, path, faults)
        _check_tool_filter_applies(item, path, [item["event"]], faults)
        handler = _read_handler(item["handler"], path, faults)
        default = "deny" if item["event"] in BLOCKING_POINTS else "allow"
        hook = _write(
            id=item["id"],
            name=name,
            points=[item["event"]],
            priority=EVENT_PRIORITY if item["priority"] is None else item["priority"],
            on_error=item["on_error"] or default,
            source="events",
            declared=item,
            matcher=item["matcher"],
            handler=handler,
        )
        if item["enabled"]:
            hooks.append((first + len(hooks), hook))
    return hooks


def _read_handler(handler: Any, path: str, faults: Faults) -> dict[str, Any]:
    """``{"type", "target", "timeout"}``; what no runtime of this release can run is an error, never left out."""
    if not isinstance(handler, Mapping) or not isinstance(handler.get("type"), str):
        faults.add(
            f"{path}.type",
            "invalid",
            'a handler is an object such as {type: python, target: "acme.hooks:redact"}',
        )
        return {}
    if handler["type"] != "python":
        faults.add(
            f"{path}.type",
            "handler_unsupported",
            f"no runtime of this release runs handlers of type {handler['type']!r}; use python, or remove it",
        )
        return {}
    for key in handler:
        if key not in HANDLER_KEYS:
            faults.add(f"{path}.{key}", "unknown_key", f"a python handler has {', '.join(HANDLER_KEYS)}")
    target = handler.get("target")
    if not isinstance(target, str) or not _TARGET.match(target):
        faults.add(f"{path}.target", "invalid", "name a callable as package.module:callable")
    _check_seconds(handler.get("timeout"), f"{path}.timeout", faults)
    return {"type": "python", "target": target, "timeout": handler.get("timeout")}
