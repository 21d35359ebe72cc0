"""What is known of a channel: the only writer of its ``worked_at`` and of its last error.

Nothing is said to work before it has: ``worked_at`` is the last time that the present configuration passed a check or
delivered a card, and is forgotten with every change of it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from channels_app import bots
from channels_app.adapters.base import AdapterError, Chat, CheckResult
from channels_app.models import Channel
from portal.lib import clock
from portal.lib.http import ForbiddenAddress
from portal.lib.problems import Problem

State = Literal["off", "error", "away", "unchecked", "works"]
MAX_ERROR = 500  # characters
FIELDS = ("worked_at", "last_error", "last_error_at")


@dataclass(frozen=True)
class Check:
    """What asking the platform came to. ``error`` says why nothing could be asked; it is empty otherwise."""

    results: list[CheckResult] = field(default_factory=list)
    chats: list[Chat] = field(default_factory=list)
    error: str = ""

    @property
    def holds(self) -> bool:
        """Whether everything works that could be tried."""
        return not self.error and bool(self.results) and all(result.ok for result in self.results)


def check(channel: Channel) -> Check:
    """Ask the platform for a token, the bot and the chat, as a delivery would, and keep what it says."""
    found = _ask(channel)
    if found.holds:
        worked([channel.pk])
    else:
        failing = [f"{result.name}: {result.detail}" for result in found.results if not result.ok]
        failed(channel.pk, found.error or "; ".join(failing) or "the platform said nothing")
    return found


def _ask(channel: Channel) -> Check:
    refusal = bots.usable(channel)
    if refusal:
        return Check(error=refusal)
    try:
        adapter = bots.open_adapter(channel)
        results = adapter.check()
    except Problem as problem:
        return Check(error=problem.detail)
    except (AdapterError, ForbiddenAddress) as refused:
        return Check(error=getattr(refused, "message", "") or str(refused))
    try:
        return Check(results, adapter.chats())
    except AdapterError:
        # Naming the chats is a help for who fills in the form; a bot may work without being allowed to.
        return Check(results)


def worked(channels: Collection[UUID]) -> None:
    """A check has passed, or a card was delivered."""
    Channel.objects.filter(pk__in=channels).update(worked_at=clock.now(), last_error="", last_error_at=None)


def failed(channel: UUID, error: str) -> None:
    """A check has failed, or a delivery for good."""
    Channel.objects.filter(pk=channel).update(
        worked_at=None, last_error=error[:MAX_ERROR], last_error_at=clock.now()
    )


def forget(channel: Channel) -> None:
    """The configuration is another one: what was known of the old one says nothing of it. The caller saves."""
    channel.worked_at, channel.last_error, channel.last_error_at = None, "", None


def state(channel: Channel) -> State:
    """In one word; reads ``channel.app``."""
    if not channel.enabled:
        return "off"
    if channel.last_error or bots.usable(channel):
        return "error"
    if channel.app.outage_since is not None:
        return "away"
    return "unchecked" if channel.worked_at is None else "works"
