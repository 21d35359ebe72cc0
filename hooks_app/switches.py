"""How the switches stand that stop an agent. They are operated in :mod:`hooks_app.governance.halting`."""

from datetime import datetime
from typing import Protocol

from typing_extensions import TypedDict

from hooks_app.models import Agent
from portal.lib import clock
from portal.lib.json_types import Moment
from portal.lib.problems import Problem


class Halts(Protocol):
    """A row with a kill switch."""

    @property
    def halted(self) -> bool: ...
    @property
    def halt_reason(self) -> str: ...
    @property
    def halt_until(self) -> datetime | None: ...


class Switches(Halts, Protocol):
    """An organization's switches."""

    @property
    def read_only(self) -> bool: ...


class RegistryState(TypedDict):
    """The switches that hold now."""

    read_only: bool
    halted: bool
    reason: str | None
    until: Moment | None


def state(agent: Halts, organization: Switches) -> RegistryState:
    """What holds now: ``{"read_only", "halted", "reason", "until"}``; a halt whose time is over no longer counts.

    While both are halted, the organization's reason is told, and the end of the later of the two.
    """
    rows: tuple[Halts, ...] = (organization, agent)
    halts = [row for row in rows if is_halted(row)]
    ends = [row.halt_until for row in halts]
    return {
        "read_only": organization.read_only,
        "halted": bool(halts),
        "reason": (halts[0].halt_reason or None) if halts else None,
        "until": None if None in ends else clock.rfc3339(max((end for end in ends if end), default=None)),
    }


def is_halted(row: Halts) -> bool:
    """Whether the row's own kill switch is on at this moment."""
    return row.halted and (row.halt_until is None or row.halt_until > clock.now())


def refusal(agent: Agent, *, writes: bool) -> Problem | None:
    """Why no call of ``agent`` (that ``writes``) may be asked for or run now, or ``None``: 409 ``agent_disabled``,
    ``halted``, ``read_only``. ``agent`` must have been read in this request, with its organization."""
    if not agent.enabled:
        return Problem(409, "agent_disabled", f"The agent {agent.slug} is switched off.")
    now = state(agent, agent.organization)
    if now["halted"]:
        reason = f": {now['reason']}" if now["reason"] else "."
        return Problem(409, "halted", f"The agent {agent.slug} is halted{reason}")
    if now["read_only"] and writes:
        return Problem(409, "read_only", "The organization is read-only, and this tool writes.")
    return None
