"""Typed parameters of the built-in hooks. The portal draws its forms from these models."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hookgate.events import HookEvent

Slug = Annotated[
    str, StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
]

CONTEXT_TEXT = "Today is {date}. Organization: {organization}. Agent: {agent}. You act for {user}."
NOTICE_TEXT = "{agent}: {event} {tool}"


class HookParams(BaseModel):
    """Base of all parameter models: an unknown key is an error, no value is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NoParams(HookParams):
    """A hook without parameters."""


class ApprovalGateParams(HookParams):
    """What a declared gate entry adds."""

    policy: Slug | None = Field(None, description="Approval policy for the calls that this entry catches.")
    channel: Slug | None = Field(None, description="Channel that the cards go to, instead of the agent's.")


class GateTrigger(ApprovalGateParams):
    """One declared gate entry inside a manifest. ``name`` is the spelling under which it was declared."""

    name: str | None = None
    tool_filter: str | None = None
    when: str | None = None
    # Only where the condition nests macros: the collections that they walk.
    walks: list[list[str]] | None = None


class ManifestGateParams(ApprovalGateParams):
    """The gate's parameters inside a manifest: its declared entries, merged by the portal."""

    triggers: list[GateTrigger] = Field(default_factory=list)


class AuditLogParams(HookParams):
    """How the call log behaves while the portal can't take entries."""

    max_queued: int = Field(
        10_000, ge=100, le=1_000_000, description="Entries kept for an unreachable portal; then calls stop."
    )
    redact: list[Annotated[str, StringConstraints(min_length=1, max_length=200)]] = Field(
        default_factory=list, max_length=100, description="More argument paths that no log entry shows."
    )
    results: bool = Field(
        False, description="Keep tools' results too, redacted and shortened, and not only their size."
    )


class ResultTruncateParams(HookParams):
    """How much of a tool's result reaches the model."""

    max_chars: int = Field(8000, ge=100, le=1_000_000, description="Longest result, in characters.")


class ConnectorRateLimitParams(HookParams):
    """A moving window per connector and user."""

    max_calls: int = Field(10, ge=1, le=100_000, description="Calls allowed within one window.")
    window_seconds: int = Field(60, ge=1, le=86_400, description="Length of the window, in seconds.")


class SessionContextParams(HookParams):
    """Text for the first prompt."""

    text: str = Field(
        CONTEXT_TEXT,
        min_length=1,
        max_length=8000,
        description="Text for the first prompt; {date}, {organization}, {agent} and {user} are filled in.",
    )


def _default_points() -> list[HookEvent]:
    return [HookEvent.POST_TOOL_USE]


class NotifyParams(HookParams):
    """A plain notice to a channel."""

    channel: Slug = Field(description="Channel that gets the notice.")
    text: str = Field(
        NOTICE_TEXT,
        min_length=1,
        max_length=2000,
        description="The notice; {event}, {tool}, {reason}, {date}, {organization}, {agent}, {user} are filled in.",
    )
    points: list[Annotated[HookEvent, Field(strict=False)]] = Field(
        default_factory=_default_points, min_length=1, max_length=15, description="Hook points that send it."
    )

    def model_post_init(self, context: Any, /) -> None:
        """Name every point once, so that a notice is sent once."""
        self.points = list(dict.fromkeys(self.points))
