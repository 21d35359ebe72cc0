"""When the approval gate fires: pure, so that the portal can simulate it."""

from __future__ import annotations

from dataclasses import dataclass

from hookgate.catalogue import GATE
from hookgate.context import HookContext
from hookgate.engine.composition import ask
from hookgate.registry.manifest import Manifest
from hookgate.result import MergedResult, TraceEntry


@dataclass(frozen=True, slots=True)
class Firing:
    """The gate fires, with the policy and the channel that the declared entries name."""

    policy: str | None
    channel: str | None


def judge(manifest: Manifest, context: HookContext, trace: list[TraceEntry]) -> Firing | None:
    """Whether the call in ``context`` needs approval, on the arguments as the other hooks left them.

    Every declared entry is asked even when the tool itself requires approval: the first that matches and
    names a policy (a channel) decides it. A condition that can't be evaluated matches.
    """
    tool = context.tool
    fires = manifest.require_confirmation_for_all or tool is None or tool.requires_confirmation
    policy = channel = None
    for trigger in manifest.triggers:
        if not trigger.catches_tool(context.tool_name):
            continue
        if trigger.condition is not None and not ask(
            trigger.condition, context, trace, name=GATE, on_error="deny"
        ):
            continue
        fires = fires or not trigger.bare
        policy = policy or trigger.policy
        channel = channel or trigger.channel
    if not fires:
        return None
    params = next(hook.params for hook in manifest.hooks if hook.name == GATE)
    return Firing(policy or params.get("policy"), channel or params.get("channel"))


def judge_emitted(manifest: Manifest, context: HookContext, merged: MergedResult) -> None:
    """Deny, in ``merged``, a call that was only asked about and could not run without more."""
    by = reason = None
    if manifest.state.halted:
        by, reason = "halted", manifest.state.reason or "the agent is halted"
    elif context.tool and not context.tool.listed and manifest.unlisted_tools == "deny":
        by, reason = "unlisted_tools", f"no connector and no tools entry names {context.tool_name}"
    elif judge(manifest, context, merged.trace) is not None:
        by, reason = GATE, "the call needs approval; use call_tool"
    if by:
        merged.allow, merged.blocked_by, merged.error = False, by, reason
