"""Runtimes that ask whether the registry that they hold still holds: by far the commonest request, in one statement.

Only "yes" is found out here. Whoever isn't told yes (a key that proves nothing, an agent out of its reach, a registry
that is out of date or can't be built, another revision) is judged by the view, from the start. The view's rules stand
below as SQL; tests/registry/test_polls.py holds the two against each other.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from hooks_app import keys, switches
from hooks_app.models import Agent
from hooks_app.registry import heads, runtimes
from portal.lib import clock, crypto, ids, statements
from portal.observe import outages

SCOPE = "registry"

# From the key to the one agent of its reach, and to a head that is current and free of errors.
_STATEMENT = """
SELECT k.id, k.scopes, k.last_used_at,
       a.id, h.revision_id, v.number, r.surface, r.revision, r.last_seen_at,
       a.halted, a.halt_reason, a.halt_until,
       o.halted, o.halt_reason, o.halt_until, o.read_only
  FROM hooks_app_runtimekey k
  JOIN portal_organization o ON o.id = k.organization_id
  JOIN hooks_app_agent a ON a.organization_id = o.id AND (k.agent_id IS NULL OR k.agent_id = a.id)
  JOIN hooks_app_registryhead h ON h.agent_id = a.id
  JOIN hooks_app_registryrevision v ON v.id = h.revision_id
  LEFT JOIN portal_user u ON u.id = k.created_by_id
  LEFT JOIN hooks_app_runtimeinstance r ON r.agent_id = a.id AND r.name = %(runtime)s
 WHERE k.digest = %(digest)s AND k.revoked_at IS NULL
   AND (k.expires_at IS NULL OR k.expires_at > %(now)s)
   AND (u.id IS NULL OR u.is_active)
   AND a.enabled
   AND h.built_publication_id = h.publication_id AND h.built_inputs_version = o.inputs_version
   AND CAST(h.errors AS text) = '[]'
   AND """
_BY_SLUG = _STATEMENT + "a.slug = %(agent)s"
_BY_ID = _STATEMENT + "a.id = %(agent)s"


@dataclass(frozen=True)
class Poll:
    """One request: the key's plain text, the agent's slug or id, the surface, the runtime's name, the held ETags."""

    key: str
    agent: str
    surface: str
    runtime: str
    held: frozenset[str]


class _Found(NamedTuple):
    """The columns of the statement."""

    key_id: Any
    scopes: str
    last_used_at: datetime | None
    agent_id: Any
    revision_id: Any
    number: int
    noted_surface: str | None
    noted_revision: int | None
    noted_at: datetime | None
    agent_halted: bool
    agent_halt_reason: str
    agent_halt_until: datetime | None
    halted: bool
    halt_reason: str
    halt_until: datetime | None
    read_only: bool


class _Switches(NamedTuple):
    halted: bool
    halt_reason: str
    halt_until: datetime | None
    read_only: bool = False


def confirm(poll: Poll) -> str | None:
    """The held ETag that still holds, noting who asked; ``None``: let the view judge.

    ``surface`` is a known one that needs no scope of its own. Raises Django's ``DatabaseError``.
    """
    now = clock.now()
    found = _find(poll, now)
    if found is None or SCOPE not in json.loads(found.scopes):
        return None
    etag = _etag(found, poll.surface)
    if etag not in poll.held:
        return None
    _note(found, poll, now.replace(second=0, microsecond=0))
    return etag


def _find(poll: Poll, now: datetime) -> _Found | None:
    pk = ids.parse(poll.agent)
    by_id = pk is not None and str(pk) == poll.agent
    rows = statements.read(
        _BY_ID if by_id else _BY_SLUG,
        {
            "digest": crypto.bearer_digest(poll.key),
            "agent": pk if by_id else poll.agent,
            "runtime": poll.runtime,
            "now": now,
        },
    )
    return _Found(*rows[0]) if rows else None


def _etag(found: _Found, surface: str) -> str:
    agent = _Switches(found.agent_halted, found.agent_halt_reason, found.agent_halt_until)
    organization = _Switches(found.halted, found.halt_reason, found.halt_until, found.read_only)
    return heads.tag(statements.as_uuid(found.revision_id), surface, switches.state(agent, organization))


def _note(found: _Found, poll: Poll, minute: datetime) -> None:
    """Note the minute of the key's use and of the runtime's question; mostly both are noted already."""
    if found.last_used_at != minute:
        keys.note_use(statements.as_uuid(found.key_id), minute)
    noted = (found.noted_surface, found.noted_revision, found.noted_at)
    if noted != (poll.surface, found.number, minute):
        with outages.tolerated():
            agent = Agent(pk=statements.as_uuid(found.agent_id))
            runtimes.record(agent, poll.runtime, poll.surface, found.number)
