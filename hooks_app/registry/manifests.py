"""The manifest: built from plain values, dressed for a surface, read back by the portal. Pure.

The stored manifest is the contract's (section 4.2) without ``state`` and ``surface``, plus ``confirmation``: who is
asked and where. Runtimes have no use for that block; it is there so that a revision says everything that governed a
call, and a change of any of it is a new revision.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NotRequired

from hookgate import canonical
from hookgate.registry.manifest import (
    SCHEMA,
    SURFACES,
    UTC,
    Manifest,
    ManifestInvalid,
    manifest_digest,
    parse,
)
from typing_extensions import TypedDict

from hooks_app.registry import manifest_checks, manifest_hooks
from hooks_app.registry.manifest_hooks import ManifestHook
from hooks_app.registry.manifest_inputs import Faults, Inputs, Tool
from hooks_app.switches import RegistryState
from portal.lib.json_types import Uuid, one_of
from portal.lib.problems import FieldError, Problem


class RegistryAgent(TypedDict):
    """Whose registry it is."""

    id: Uuid
    slug: str
    organization: str


class Freshness(TypedDict):
    """How long a manifest may be used, in seconds."""

    revalidate_after_seconds: int
    max_stale_seconds: int


class ManifestTool(TypedDict):
    """A tool that the registry lists."""

    name: str
    connector: str | None
    writes: bool
    requires_confirmation: bool
    redact: list[str]


class ConfirmationSettings(TypedDict):
    """Who is asked, and where. ``tool_policies``: by the name of the tool's entry."""

    mode: str
    channels: list[str]
    policy: str | None
    tool_policies: dict[str, str]
    max_pending: int


class StoredManifest(TypedDict):
    """Everything that an agent runs, on whatever surface, as it is stored."""

    schema: Annotated[str, one_of((SCHEMA,))]
    agent: RegistryAgent
    revision: int
    digest: str
    bypass: bool
    freshness: Freshness
    unlisted_tools: Annotated[str, one_of(("allow", "confirm", "deny"))]
    require_confirmation_for_all: bool
    time_zone: NotRequired[str]
    may_delegate_to: list[str]
    tools: list[ManifestTool]
    hooks: list[ManifestHook]
    confirmation: ConfirmationSettings


class ServedManifest(StoredManifest):
    """Everything that an agent runs."""

    surface: Annotated[str, one_of(SURFACES)]
    state: RegistryState


NO_STATE: RegistryState = {"read_only": False, "halted": False, "reason": None, "until": None}


@dataclass(frozen=True)
class Built:
    """Either a manifest (its ``revision`` still 0) and its digest, or every reason why there is none."""

    manifest: StoredManifest | None
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


def _write(inputs: Inputs, tools: list[Tool], hooks: list[ManifestHook]) -> StoredManifest:
    content = inputs.content
    manifest: StoredManifest = {
        "schema": SCHEMA,
        "agent": {"id": str(inputs.agent_id), "slug": inputs.agent, "organization": inputs.organization},
        "revision": 0,
        "digest": "",
        "bypass": False,
        "freshness": {
            "revalidate_after_seconds": inputs.revalidate_after_seconds,
            "max_stale_seconds": inputs.max_stale_seconds,
        },
        "unlisted_tools": content["unlisted_tools"],
        "require_confirmation_for_all": content["require_confirmation_for_all"],
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
    # Only where it says something: the digests of all others stay what they are.
    if inputs.time_zone != UTC:
        manifest["time_zone"] = inputs.time_zone
    return manifest


def document(manifest: StoredManifest, *, surface: str, state: RegistryState) -> ServedManifest:
    """What a runtime is served: the manifest with its surface and the state that holds now.

    On ``eval`` nothing runs and nobody is asked, so the digest is another one; ``surface`` is one of ``SURFACES``.
    """
    served: ServedManifest = {**manifest, "surface": surface, "state": state}
    if surface == "eval":
        served["bypass"], served["hooks"] = True, []
        served["digest"] = manifest_digest(served)
    return served


@dataclass(frozen=True)
class Governance:
    """One revision as the portal reads it when it judges a confirmation request: the manifest, as runtimes read it,
    and its ``confirmation`` block. ``tool_policies``: by the name of the tool's entry."""

    manifest: Manifest
    mode: str
    approval_channels: tuple[str, ...]
    policy: str | None
    max_pending: int
    tool_policies: Mapping[str, str]

    def tool_policy(self, name: str) -> str | None:
        """The policy that the entry of the tool ``name`` names."""
        tool = self.manifest.find_tool(name)
        return None if tool is None else self.tool_policies.get(tool.name)


def govern(manifest: StoredManifest) -> Governance:
    """Read a stored manifest back, with the runtime's own reader. Raises 422 ``registry_unbuildable`` for one that it
    reads no more: then no runtime runs anything by it either."""
    confirmation = manifest["confirmation"]
    try:
        read = parse(document(manifest, surface="chat", state=NO_STATE))
    except ManifestInvalid as error:
        fault = FieldError(error.path, "invalid", error.message)
        message = "This release does not read the agent's published registry; publish the agent again."
        raise Problem(422, "registry_unbuildable", message, errors=[fault]) from None
    return Governance(
        manifest=read,
        mode=confirmation["mode"],
        approval_channels=tuple(confirmation["channels"]),
        policy=confirmation["policy"],
        max_pending=confirmation["max_pending"],
        tool_policies=confirmation["tool_policies"],
    )


def check_surface(surface: str) -> FieldError | None:
    """What is wrong with a surface that somebody asked for, or ``None``."""
    if surface in SURFACES:
        return None
    return FieldError("surface", "invalid", f"use one of {', '.join(SURFACES)}")
