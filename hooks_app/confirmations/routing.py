"""Which policy holds for one call, and which channels its cards go to.

The portal judges an agent's triggers itself, on the arguments that it was sent: a runtime's word chooses only among
triggers that the portal can't judge, because they read what only the runtime knows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from hookgate.context import ToolFacts
from hookgate.matching.matching import Condition, MatchError
from hookgate.registry.manifest import Trigger

from channels_app.models import Channel
from hooks_app.approvers import policies
from hooks_app.confirmations.proposals import NewRequest
from hooks_app.models import Agent, RegistryHead
from hooks_app.registry import heads
from hooks_app.registry.manifests import Governance
from portal.lib.problems import FieldError, Problem, invalid

# Variables of a condition that a request doesn't carry.
_RUNTIME_ONLY = frozenset({"surface", "metadata"})


@dataclass(frozen=True)
class Route:
    """How one call is asked about: the frozen policy, the channels, and the facts of its tool."""

    mode: str
    policy: dict[str, Any]
    channels: list[Channel]
    writes: bool
    redact: list[str]
    max_pending: int
    # The policy's, or the shorter one that the runtime asked for.
    timeout_seconds: int


def find(head: RegistryHead, request: NewRequest) -> Route:
    """Resolve policy and channels for ``request``.

    Raises 400 ``invalid`` for a policy or channel that the agent names nowhere, 422 ``registry_unbuildable`` for a
    policy that is gone or a ``channel_only`` agent without a usable channel.
    """
    agent = head.agent
    published = heads.governance(head)
    _check_named(request, published)
    facts = published.manifest.tool_facts(request.tool_name)
    matched = _matching(agent, published, facts, request)
    slug = policies.choose(
        published.tool_policy(request.tool_name),
        _named(((trigger.policy, sure) for trigger, sure in matched), request.policy),
        published.policy,
        agent.organization.approval_policy,
    )
    policy = policies.frozen(agent.organization, slug)
    longest = policy["timeout_seconds"]
    return Route(
        mode=published.mode,
        policy=policy,
        channels=_channels(agent, published, matched, request.channel),
        writes=facts.writes,
        redact=list(facts.redact),
        max_pending=published.max_pending,
        timeout_seconds=min(longest, request.timeout_seconds or longest),
    )


def _check_named(request: NewRequest, published: Governance) -> None:
    errors = []
    if request.policy and all(trigger.policy != request.policy for trigger in published.manifest.triggers):
        errors.append(FieldError("policy", "unknown", "No gate entry of this agent names this policy."))
    named = {*published.approval_channels, *(trigger.channel for trigger in published.manifest.triggers)}
    if request.channel and request.channel not in named:
        errors.append(
            FieldError("channel", "unknown", "Neither a gate entry nor approval_channels names this channel.")
        )
    if errors:
        raise invalid(*errors)


def _matching(
    agent: Agent, published: Governance, facts: ToolFacts, request: NewRequest
) -> list[tuple[Trigger, bool]]:
    """The triggers that may match, each with whether it surely does."""
    variables = _variables(agent, facts, request)
    found = []
    for trigger in published.manifest.triggers:
        if not trigger.catches_tool(request.tool_name):
            continue
        if trigger.condition is not None and trigger.condition.names & _RUNTIME_ONLY:
            found.append((trigger, False))
        elif trigger.condition is None or _holds(trigger.condition, variables):
            found.append((trigger, True))
    return found


def _holds(condition: Condition, variables: Mapping[str, Any]) -> bool:
    """Whether it catches the call. A condition that can't be evaluated catches it too."""
    try:
        return condition.evaluate(variables)
    except MatchError:
        return True


def _named(named: Iterable[tuple[str | None, bool]], wanted: str | None) -> str | None:
    """The first name that a matching trigger gives. One that can't be judged here counts when the runtime, which can,
    says the same."""
    return next((name for name, sure in named if name and (sure or name == wanted)), None)


def _channels(
    agent: Agent, published: Governance, matched: Sequence[tuple[Trigger, bool]], wanted: str | None
) -> list[Channel]:
    """The channels that cards go to. One that is switched off is left out, never replaced by another."""
    if published.mode == Agent.Mode.INLINE_ONLY:
        return []
    named = _named(((trigger.channel, sure) for trigger, sure in matched), wanted)
    if named is None and wanted in published.approval_channels:
        named = wanted
    channels = _usable(agent, [named] if named else published.approval_channels)
    if not channels and published.mode == Agent.Mode.CHANNEL_ONLY:
        message = "This agent asks only through a channel, and none that it names is switched on."
        raise Problem(
            422,
            "registry_unbuildable",
            message,
            errors=[FieldError("approval_channels", "no_usable_channel", message)],
        )
    return channels


def _usable(agent: Agent, slugs: Sequence[str]) -> list[Channel]:
    """The enabled channels of the agent's own organization among ``slugs``, in this order."""
    organization = agent.organization
    found = _enabled(organization.pk, organization.inputs_version)
    return [found[slug] for slug in slugs if slug in found]


@lru_cache(maxsize=256)
def _enabled(organization_id: UUID, _inputs_version: int) -> dict[str, Channel]:
    """The enabled channels of an organization by slug: they can't change while its ``inputs_version`` stays."""
    rows = Channel.objects.filter(organization=organization_id, enabled=True)
    return {channel.slug: channel for channel in rows.select_related("app", "organization")}


def _variables(agent: Agent, facts: ToolFacts, request: NewRequest) -> dict[str, Any]:
    """What a condition reads, as the runtime names it."""
    return {
        "event": "PreToolUse",
        "tool": {
            "name": request.tool_name,
            "connector": facts.connector,
            "action": facts.action,
            "writes": facts.writes,
            "requires_confirmation": facts.requires_confirmation,
        },
        "args": request.tool_args,
        "agent": {"id": str(agent.pk), "slug": agent.slug, "organization": agent.organization.slug},
        "user": request.initiator_json(),
    }
