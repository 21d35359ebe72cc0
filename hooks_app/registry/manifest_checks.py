"""Checks of what a registry refers to: tools, agents, policies, channels. Pure."""

from collections.abc import Mapping
from typing import Any

from hooks_app.models.policies import BUILT_IN
from hooks_app.registry.manifest_hooks import GateEntry
from hooks_app.registry.manifest_inputs import Channel, Faults, Inputs, Tool
from portal.lib import nearest


def check_tools(inputs: Inputs, faults: Faults) -> list[Tool]:
    """Every tool that the registry names, sorted: the connectors' actions and the agent's own."""
    tools = {tool.name: tool for tool in inputs.actions}
    for index, item in enumerate(inputs.content["tools"]):
        path = f"tools[{index}]"
        connector, separator, _ = item["name"].partition("__")
        if item["name"] == "*":
            faults.add(f"{path}.name", "invalid", "only a connector can have an action called *")
        elif separator and connector in inputs.connectors:
            # Otherwise an agent could loosen what its organization's connector says of its actions.
            faults.add(
                f"{path}.name",
                "connector_tool",
                f"{connector!r} is a connector; describe {item['name']} among its actions",
            )
        elif item["name"] in tools:
            faults.add(f"{path}.name", "duplicate_tool", f"{item['name']} is described twice; keep one")
        else:
            tools[item["name"]] = Tool(
                name=item["name"],
                connector=connector if separator else None,
                writes=item["writes"],
                requires_confirmation=item["requires_confirmation"],
                policy=item["policy"],
                redact=tuple(item["redact"]),
                path=path,
            )
    return [tools[name] for name in sorted(tools)]


def check_settings(inputs: Inputs, faults: Faults) -> None:
    """The agent's settings that name other things, and those that this release stores but can't carry out."""
    content = inputs.content
    for index, slug in enumerate(content["may_delegate_to"]):
        if slug not in inputs.agents:
            faults.add(
                f"may_delegate_to[{index}]",
                "unknown_agent",
                f"the organization has no agent {slug!r}; {nearest.suggest(slug, inputs.agents) or 'remove it'}",
            )
    for key in ("approval_channels", "fallback_channels"):
        for index, slug in enumerate(content[key]):
            if inputs.find_channel(slug) is None:
                faults.add(
                    f"{key}[{index}]",
                    "unknown_channel",
                    f"there is no channel {slug!r}; {_near_channel(slug, inputs) or 'remove it or name another'}",
                )
    if content["fallback_channels"]:
        faults.add("fallback_channels", "not_available", "this release has no fallback channels yet; use []")
    if content["barrier"] != "call":
        faults.add("barrier", "not_available", "this release has no barrier for whole runs yet; use call")


def _near_channel(slug: str, inputs: Inputs) -> str:
    return nearest.suggest(slug, (channel.slug for channel in inputs.channels))


def check_policies(inputs: Inputs, tools: list[Tool], triggers: list[GateEntry], faults: Faults) -> None:
    """Every policy that may hold for a call of this agent exists, and asks for nothing that this release can't do."""
    policies = {policy.slug: policy for policy in inputs.policies}
    for path, slug in _named_policies(inputs, tools, triggers):
        policy = policies.get(slug)
        if policy is None:
            if slug != BUILT_IN:
                near = nearest.suggest(slug, [*policies, BUILT_IN]) or "make it or name another"
                faults.add(path, "unknown_policy", f"there is no approval policy {slug!r}; {near}")
            continue
        for option in policy.unavailable:
            faults.add(
                f"approval_policies.{slug}.{option}",
                "not_available",
                f"this release can't carry out {option} yet; leave it at its default",
            )


def _named_policies(inputs: Inputs, tools: list[Tool], triggers: list[GateEntry]) -> list[tuple[str, str]]:
    named = [(f"{tool.path}.policy", tool.policy) for tool in tools]
    named += [(f"{trigger.path}.params.policy", trigger.policy) for trigger in triggers]
    if inputs.content["approval_policy"] is not None:
        named.append(("approval_policy", inputs.content["approval_policy"]))
    else:
        named.append(("organization.approval_policy", inputs.organization_policy))
    return [(path, slug) for path, slug in named if slug is not None]


def check_reachable(inputs: Inputs, tools: list[Tool], triggers: list[GateEntry], faults: Faults) -> None:
    """With ``channel_only`` every call that the gate can stop has a channel that can carry its card."""
    content = inputs.content
    if content["confirmation_mode"] != "channel_only":
        return
    for trigger in triggers:
        channel = inputs.find_channel(trigger.channel) if trigger.channel else None
        if channel is not None and channel.unusable:
            faults.add(f"{trigger.path}.params.channel", "no_usable_channel", _explain([channel]))
    if not _needs_own_channels(content, tools, triggers):
        return
    channels = [c for slug in content["approval_channels"] if (c := inputs.find_channel(slug)) is not None]
    if all(channel.unusable for channel in channels):
        faults.add("approval_channels", "no_usable_channel", _explain(channels))


def _needs_own_channels(content: Mapping[str, Any], tools: list[Tool], triggers: list[GateEntry]) -> bool:
    """Whether a gated call can be one that no declared gate entry names a channel for."""
    if any(trigger.bare and trigger.channel for trigger in triggers):
        return False
    return (
        content["require_confirmation_for_all"]
        or content["unlisted_tools"] == "confirm"
        or any(tool.requires_confirmation for tool in tools)
        or any(not trigger.bare and trigger.channel is None for trigger in triggers)
    )


def _explain(channels: list[Channel]) -> str:
    if not channels:
        return "channel_only needs a channel for the cards; name one, or set confirmation_mode to auto"
    reasons = "; ".join(f"{channel.slug}: {channel.unusable}" for channel in channels)
    return f"channel_only needs a channel that works ({reasons}); repair it, or set confirmation_mode to auto"
