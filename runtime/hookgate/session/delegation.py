"""Which delegates a session has, and by which path the calls of each are known."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hookgate import call_ids

MAX_DEPTH: Final = 5


class DelegationRefused(Exception):
    """The delegate may not, or can't, run. An agent whose hooks can't be had doesn't run without them."""


class Delegations:
    """What a session has delegated: by which path each delegate's calls are known, so that no two share their ids and
    a restarted process gives the same ones. ``path`` is the session's own."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._counts: Counter[tuple[str, str | None]] = Counter()
        # By agent and path; whether it is the one without a name and outside a call.
        self._open: dict[tuple[str, str], bool] = {}

    def take(self, agent: str, name: str | None, within: str | None) -> str:
        """The path of one more delegate, until `give_back`. ``within`` is the call whose tool delegates.
        Raises DelegationRefused where another one that is open would have it too."""
        unnamed = name is None and within is None
        if unnamed and any(self._open[key] for key in self._open if key[0] == agent):
            raise DelegationRefused(
                f"a delegation to {agent} is open already; several at a time need names, "
                f"such as session.delegate({agent!r}, name='first')"
            )
        path = self._choose(agent, name, within)
        if (agent, path) in self._open:
            raise DelegationRefused(
                f"a delegation to {agent} with this name is open already; name it otherwise"
            )
        self._open[agent, path] = unnamed
        self._counts[agent, None] += 1
        if within is not None:
            self._counts[agent, within] += 1
        return path

    def give_back(self, agent: str, path: str) -> None:
        """The delegate is gone."""
        self._open.pop((agent, path), None)

    def take_back(self, agent: str, path: str, within: str | None) -> None:
        """The delegate could not be opened, and doesn't count."""
        self.give_back(agent, path)
        self._counts[agent, None] -= 1
        if within is not None:
            self._counts[agent, within] -= 1

    def _choose(self, agent: str, name: str | None, within: str | None) -> str:
        if within is None:
            own = str(self._counts[agent, None]) if name is None else name
            return call_ids.as_path(*filter(None, (self._path, own)))
        if name is not None:
            return call_ids.as_path(within, name)
        # The first of a call has the call's id; those after it would share it.
        before = self._counts[agent, within]
        return call_ids.as_path(within, str(before)) if before else call_ids.as_path(within)
