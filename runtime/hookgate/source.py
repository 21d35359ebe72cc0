"""Where a session's registry comes from, and for how long it may be trusted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from hookgate import manifest
from hookgate.manifest import Manifest, ManifestInvalid
from hookgate.portal import Portal, Refused, Reply, Unreachable

log = logging.getLogger("hookgate")

# Answers after which an agent may not go on with an old registry.
_FINAL: Final = frozenset({401, 403, 404, 422})
_MAX_PAUSE: Final = 5.0


class RegistrySource:
    """One agent's registry on one surface, shared by the sessions of a runtime.

    ``stopped`` is set when the portal has said that this agent may not run. Ages are on a monotonic
    clock (seconds) and count from the start of the last request that the portal answered with 200 or 304.
    """

    def __init__(self, portal: Portal, agent: str, surface: str, clock: Callable[[], float]) -> None:
        self.stopped: str | None = None
        self.manifest: Manifest | None = None
        self._portal = portal
        self._agent = agent
        self._surface = surface
        self._clock = clock
        self._etag: str | None = None
        self._checked_at = 0.0
        self._retry_at = 0.0
        self._problem = "no registry has been fetched"
        self._flight: asyncio.Task[None] | None = None

    async def refresh(self, *, force: bool = False) -> None:
        """Ask the portal when it is time to; callers at the same time share one request."""
        if not force and not self._is_due():
            return
        if self._flight is None or self._flight.done():
            self._flight = asyncio.get_running_loop().create_task(self._fetch())
        # Shielded: one caller's cancellation must not fail the others.
        await asyncio.shield(self._flight)

    def obstacle(self) -> str | None:
        """Why no tool may run on this registry now; None when it may."""
        if self.stopped is not None:
            return self.stopped
        if self.manifest is None:
            return self._problem
        age = self._clock() - self._checked_at
        if age >= self.manifest.freshness.max_stale_seconds:
            return f"the registry has not been confirmed for {age:.0f} s: {self._problem}"
        return None

    async def close(self) -> None:
        """End a request that is under way."""
        if self._flight is not None and not self._flight.done():
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)

    def _is_due(self) -> bool:
        if self.stopped is not None:
            return False
        if self.manifest is None:
            return True
        now, freshness = self._clock(), self.manifest.freshness
        age = now - self._checked_at
        if age < freshness.revalidate_after_seconds:
            return False
        return now >= self._retry_at or age >= freshness.max_stale_seconds

    async def _fetch(self) -> None:
        started = self._clock()
        headers = {"If-None-Match": self._etag} if self._etag and self.manifest else None
        try:
            reply = await self._portal.call(
                "GET",
                f"agents/{quote(self._agent, safe='')}/registry",
                params={"surface": self._surface},
                headers=headers,
            )
        except Unreachable as error:
            self._note_failure(f"the portal is out of reach ({error})")
        except Refused as error:
            self._note_refusal(error)
        else:
            self._take(reply, started)

    def _note_failure(self, problem: str) -> None:
        log.warning("registry of %s: %s", self._agent, problem)
        self._problem = problem
        pause = self.manifest.freshness.revalidate_after_seconds if self.manifest else 0.0
        self._retry_at = self._clock() + min(_MAX_PAUSE, pause)

    def _note_refusal(self, error: Refused) -> None:
        if error.status not in _FINAL:
            self._note_failure(f"the portal refused the registry: {error}")
            return
        log.error("registry of %s refused: %s %s", self._agent, error.status, error)
        self.stopped = f"the portal refused the registry with {error.status}: {error}"
        self.manifest = None
        self._etag = None

    def _take(self, reply: Reply, started: float) -> None:
        if reply.status == 304:
            if self.manifest is None:
                self._note_failure("the portal says that nothing changed, and there is nothing")
                return
        else:
            try:
                self.manifest = self._read(reply)
            except ManifestInvalid as error:
                # What can't be understood may hold a new guard: going on with the old one would skip it.
                self.manifest = None
                self._etag = None
                self._note_failure(f"the registry can't be used ({error})")
                return
            self._etag = reply.etag
        self.stopped = None
        self._checked_at = started
        self._retry_at = 0.0

    def _read(self, reply: Reply) -> Manifest:
        parsed = manifest.parse(reply.body)
        if self._agent not in (parsed.agent.slug, parsed.agent.id):
            raise ManifestInvalid("agent.slug", f"is not {self._agent!r}")
        if parsed.surface != self._surface:
            raise ManifestInvalid("surface", f"is not {self._surface!r}")
        return parsed
