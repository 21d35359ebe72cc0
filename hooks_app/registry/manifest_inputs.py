"""What a registry is built from: plain values, read by :mod:`hooks_app.registry.input_rows`, never rows.

``content`` of :class:`Inputs` is what :func:`hooks_app.registry.publishing.draft` returns: the agent's settings and
declarations as they were published. Everything else is shared by the organization's agents and holds at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from portal.lib.problems import FieldError


@dataclass(frozen=True)
class Tool:
    """What the gate must know of one tool. ``path`` is where a person declared it, ``schema`` that of its arguments."""

    name: str
    connector: str | None
    writes: bool
    requires_confirmation: bool
    policy: str | None
    redact: tuple[str, ...]
    path: str
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Channel:
    """One channel of the organization. ``unusable`` says why no card can go out through it, or is ``None``."""

    slug: str
    type: str
    enabled: bool
    unusable: str | None = None


@dataclass(frozen=True)
class Policy:
    """One approval policy, and which of its options are set to something that this release can't do."""

    slug: str
    unavailable: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inputs:
    """Everything that one agent's registry depends on. Times are in seconds."""

    organization: str
    organization_policy: str
    revalidate_after_seconds: int
    max_stale_seconds: int
    agent_id: UUID
    agent: str
    content: Mapping[str, Any]
    actions: tuple[Tool, ...] = ()
    connectors: frozenset[str] = frozenset()
    channels: tuple[Channel, ...] = ()
    policies: tuple[Policy, ...] = ()
    agents: frozenset[str] = frozenset()
    # What the agent's runtimes say they have: names, and the JSON Schema of the arguments where they say it.
    announced: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    # The organization's: by which its dates are told.
    time_zone: str = "UTC"

    def find_channel(self, slug: str) -> Channel | None:
        """The channel called ``slug``, or ``None``."""
        return next((channel for channel in self.channels if channel.slug == slug), None)


@dataclass
class Faults:
    """Collects every reason why a registry can't be built; each is said once."""

    errors: list[FieldError] = field(default_factory=list)

    def add(self, path: str, code: str, message: str) -> None:
        """One more reason. ``path`` is the config file's, ``message`` names the remedy."""
        error = FieldError(path, code, message)
        if error not in self.errors:
            self.errors.append(error)
