"""The manifest: built from plain values, dressed for a surface, read back by the portal. Pure.

The stored manifest is the contract's (section 4.2) without ``state`` and ``surface``, plus ``confirmation``: who is
asked and where. Runtimes have no use for that block; it is there so that a revision says everything that governed a
call, and a change of any of it is a new revision.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hookgate import canonical
from hookgate.catalogue import GATE
from hookgate.matching import matching, work
from hookgate.registry.manifest import SCHEMA, SURFACES, UTC, ManifestInvalid, manifest_digest, parse

from hooks_app.registry import manifest_checks, manifest_hooks
from hooks_app.registry.manifest_inputs import Faults, Inputs, Tool
from portal.lib.problems import FieldError

NO_STATE: dict[str, Any] = {"read_only": False, "halted": False, "reason": None, "until": None}


@dataclass(frozen=True)
class Built:
    """Either a manifest (its ``revision`` still 0) and its digest, or every reason why there is none."""

    manifest: dict[str, Any] | None
    digest: str
    errors: tuple[FieldError, ...]


def build(inputs: Inputs) -> Built:
    """Build the registry. Equal declarations give an equal digest, whatever the ids of their rows."""
    faults = Faults()
    tools = manifest_checks.check_tools(inputs, faults)
    compiled = manifest_hooks.compile_hooks(inputs, faults)
    manifest_checks.check_settings(inputs, faults)
    manifest_checks.check_policies(inputs, tools, compiled.triggers, faults)
    manifest_checks.check_reachable(inputs, tools, compiled.triggers, faults)
    if faults.errors:
        return Built(None, "", tuple(faults.errors))
    manifest = _write(inputs, tools, compiled.hooks)
    try:
        manifest["digest"] = manifest_digest(manifest)
        # The runtime's own reader has the last word: what it would refuse is never served.
        parse(document(manifest, surface="chat", state=NO_STATE))
    except canonical.NotCanonical as error:
        return Built(None, "", (FieldError(error.path, "not_canonical", error.message),))
    except ManifestInvalid as error:
        return Built(None, "", (FieldError(error.path, "invalid", error.message),))
    return Built(manifest, manifest["digest"], ())


def _write(inputs: Inputs, tools: list[Tool], hooks: list[dict[str, Any]]) -> dict[str, Any]:
    content = inputs.content
    return {
        "schema": SCHEMA,
        "agent": {"id": str(inputs.agent_id), "slug": inputs.agent, "organization": inputs.organization},
        "revision": 0,
        "bypass": False,
        "freshness": {
            "revalidate_after_seconds": inputs.revalidate_after_seconds,
            "max_stale_seconds": inputs.max_stale_seconds,
        },
        "unlisted_tools": content["unlisted_tools"],
        "require_confirmation_for_all": content["require_confirmation_for_all"],
        # Only where it says something: the digests of all others stay what they are.
        **({} if inputs.time_zone == UTC else {"time_zone": inputs.time_zone}),
        "may_delegate_to": list(dict.fromkeys(content["may_delegate_to"])),
        "tools": [
            {
                "name": tool.name,
                "connector": tool.connector,
                "writes": tool.writes,
                "requires_confirmation": tool.requires_confirmation,
                "redact": list(tool.redact),
            }
            for tool in tools
        ],
        "hooks": hooks,
        "confirmation": {
            "mode": content["confirmation_mode"],
            "channels": content["approval_channels"],
            "policy": content["approval_policy"],
            "tool_policies": {tool.name: tool.policy for tool in tools if tool.policy is not None},
            "max_pending": content["max_pending"],
        },
    }


def document(manifest: Mapping[str, Any], *, surface: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """What a runtime is served: the manifest with its surface and the state that holds now.

    On ``eval`` nothing runs and nobody is asked, so the digest is another one; ``surface`` is one of ``SURFACES``.
    """
    served = {**manifest, "surface": surface, "state": dict(state)}
    if surface == "eval":
        served |= {"bypass": True, "hooks": []}
        served["digest"] = manifest_digest(served)
    return served


@dataclass(frozen=True)
class Trigger:
    """A declared gate entry, compiled. See :class:`hooks_app.registry.manifest_hooks.Trigger`."""

    name: str
    policy: str | None
    channel: str | None
    matches_tool: matching.Predicate | None
    condition: matching.Condition | None

    @property
    def bare(self) -> bool:
        """Without filter and condition it gates nothing by itself."""
        return self.matches_tool is None and self.condition is None

    def matches(self, tool_name: str, variables: Mapping[str, Any]) -> bool:
        """Whether it catches the call. A condition that can't be evaluated over ``variables`` catches it too."""
        if self.matches_tool is not None and not self.matches_tool(tool_name):
            return False
        if self.condition is None:
            return True
        try:
            return self.condition.evaluate(variables)
        except matching.MatchError:
            return True


@dataclass(frozen=True)
class ToolFacts:
    """What holds for one tool name. ``redact`` are argument paths; a tool that nobody describes is ``listed=False``."""

    name: str
    listed: bool
    connector: str | None
    writes: bool
    requires_confirmation: bool
    policy: str | None
    redact: tuple[str, ...]


@dataclass(frozen=True)
class Governance:
    """One revision as the portal reads it when it judges a confirmation request."""

    revision: int
    digest: str
    mode: str
    approval_channels: tuple[str, ...]
    policy: str | None
    max_pending: int
    unlisted_tools: str
    require_confirmation_for_all: bool
    triggers: tuple[Trigger, ...]
    tools: Mapping[str, Mapping[str, Any]]
    tool_policies: Mapping[str, str]

    def tool_facts(self, name: str) -> ToolFacts:
        """The facts of ``name``: its own entry, else its connector's ``*``, else a stranger's."""
        connector, separator, _ = name.partition("__")
        for key in (name, f"{connector}__*") if separator else (name,):
            tool = self.tools.get(key)
            if tool is not None:
                return ToolFacts(
                    name=name,
                    listed=True,
                    connector=tool["connector"],
                    writes=tool["writes"],
                    requires_confirmation=tool["requires_confirmation"],
                    policy=self.tool_policies.get(key),
                    redact=tuple(tool["redact"]),
                )
        return ToolFacts(
            name=name,
            listed=False,
            connector=connector if separator else None,
            writes=True,
            requires_confirmation=self.unlisted_tools == "confirm",
            policy=None,
            redact=(),
        )


def govern(manifest: Mapping[str, Any]) -> Governance:
    """Read a stored manifest back. It was checked when it was built."""
    confirmation = manifest["confirmation"]
    gate = next(hook for hook in manifest["hooks"] if hook["name"] == GATE)
    return Governance(
        revision=manifest["revision"],
        digest=manifest["digest"],
        mode=confirmation["mode"],
        approval_channels=tuple(confirmation["channels"]),
        policy=confirmation["policy"],
        max_pending=confirmation["max_pending"],
        unlisted_tools=manifest["unlisted_tools"],
        require_confirmation_for_all=manifest["require_confirmation_for_all"],
        triggers=tuple(_compile_trigger(item) for item in gate["params"].get("triggers", [])),
        tools={tool["name"]: tool for tool in manifest["tools"]},
        tool_policies=confirmation["tool_policies"],
    )


def _compile_trigger(item: Mapping[str, Any]) -> Trigger:
    return Trigger(
        name=item["name"],
        policy=item["policy"],
        channel=item["channel"],
        matches_tool=None
        if item["tool_filter"] is None
        else matching.compile_tool_filter(item["tool_filter"]),
        condition=_compile_condition(item),
    )


def _compile_condition(item: Mapping[str, Any]) -> matching.Condition | None:
    if item["when"] is None:
        return None
    return matching.compile_condition(item["when"], work.read_walks(item.get("walks")))


def check_surface(surface: str) -> FieldError | None:
    """What is wrong with a surface that somebody asked for, or ``None``."""
    if surface in SURFACES:
        return None
    return FieldError("surface", "invalid", f"use one of {', '.join(SURFACES)}")
