"""Where a session's registry comes from, and for how long it may be trusted."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from hookgate.registry import manifest
from hookgate.registry.manifest import Manifest, ManifestInvalid, State
from hookgate.wire import explanations
from hookgate.wire.portal import Portal, Refused, Reply, Unreachable

log = logging.getLogger("hookgate")

# Answers after which an agent may not go on with an old registry.
_FINAL: Final = frozenset({401, 403, 404, 422})
_MAX_PAUSE: Final = 5.0
# The longest sleep between two looks at the clock, which may have been moved on by a call's own request.
_LOOK_EVERY: Final = 1.0


class RegistrySource:
    """One agent's registry on one surface, shared by the sessions of a runtime.

    ``stopped`` is set when the portal has said that this agent may not run; ``stops`` counts how often it
    did, ``last_stop`` is why. Ages are on a monotonic clock (seconds) and count from the start of the last
    request that the portal answered with 200 or 304. Between `start` and `stop` it is kept fresh without
    waiting for a call; one request at a time, whoever wants it.
    """

    def __init__(self, portal: Portal, agent: str, surface: str, clock: Callable[[], float]) -> None:
        self.stopped: str | None = None
        self.last_stop: str | None = None
        self.stops = 0
        self.manifest: Manifest | None = None
        self._portal = portal
        self._agent = agent
        self._surface = surface
        self._clock = clock
        self._etag: str | None = None
        self._checked_at = 0.0
        self._retry_at = 0.0
        self._problem = "no registry has been fetched"
        # What the log has of the present fault.
        self._told: str | None = None
        self._flight: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        # When to ask unasked. Spread, so that many runtimes that began together don't ask together.
        self._ask_at = 0.0
        # How often it was said to be out of date, and up to which time of it what is held was asked for.
        self._news = 0
        self._heard = 0

    async def refresh(self, *, force: bool = False) -> None:
        """Ask the portal when it is time to; callers at the same time share one request."""
        if force or self._is_due():
            flight = self._take_off()
            # One caller's cancellation must not fail the others, and `close` ends the request, not its callers.
            await asyncio.wait({flight})
            if not flight.cancelled():
                flight.result()

    def invalidate(self) -> None:
        """What is held is out of date: ask now, and once more where the answer under way may be older."""
        if self.stopped is None:
            self._news += 1
            self._take_off()

    def hear_registry(self, revision: int | None, digest: str | None) -> None:
        """An event: this is what the portal serves now; None where it serves nothing."""
        held = self.manifest
        if held is None or held.revision != revision or (held.digest != digest and not held.bypass):
            self.invalidate()

    def hear_state(self, state: State) -> None:
        """An event: these switches hold now. A stricter one holds here at once, an easier one when the
        registry says so."""
        held = self.manifest
        if held is not None and held.state == state:
            return
        if held is not None and (state.halted > held.state.halted or state.read_only > held.state.read_only):
            # Without the ETag the next answer is a whole one, whatever the event was worth.
            self.manifest, self._etag = replace(held, state=state), None
        self.invalidate()

    def start(self) -> None:
        """The first session begins: keep the registry fresh."""
        self._keeper = asyncio.get_running_loop().create_task(self._keep_fresh())

    def stop(self) -> None:
        """The last session was left."""
        if self._keeper is not None:
            self._keeper.cancel()

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
        """End what is under way."""
        self.stop()
        tasks = [task for task in (self._keeper, self._flight) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_fresh(self) -> None:
        while True:
            # Who was refused is left alone until a new session asks.
            pause = _LOOK_EVERY if self.stopped is not None else self._ask_at - self._clock()
            if pause > 0:
                await asyncio.sleep(min(pause, _LOOK_EVERY))
                continue
            try:
                await self.refresh(force=True)
            except Exception:
                log.exception("registry of %s", self._agent)
                await asyncio.sleep(_MAX_PAUSE)

    def _take_off(self) -> asyncio.Task[None]:
        if self._flight is None or self._flight.done():
            self._flight = asyncio.get_running_loop().create_task(self._fly())
        return self._flight

    async def _fly(self) -> None:
        while True:
            news = self._news
            await self._fetch(news)
            if news == self._news or self.stopped is not None:
                return

    def _is_due(self) -> bool:
        if self.stopped is not None:
            return False
        if self.manifest is None:
            return True
        now, freshness = self._clock(), self.manifest.freshness
        age = now - self._checked_at
        if age < freshness.revalidate_after_seconds and self._heard == self._news:
            return False
        return now >= self._retry_at or age >= freshness.max_stale_seconds

    async def _fetch(self, news: int) -> None:
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
            self._note_failure("the portal is out of reach", error.retry_after, detail=str(error))
        except Refused as error:
            self._note_refusal(error)
        else:
            self._take(reply, started, news)

    def _note_failure(self, problem: str, retry_after: float | None = None, *, detail: str = "") -> None:
        told = f"{problem}{f' ({detail})' if detail else ''}"
        # The same fault at every try is no news.
        log.log(
            logging.WARNING if told != self._told else logging.DEBUG, "registry of %s: %s", self._agent, told
        )
        self._problem, self._told = problem, told
        pause = self.manifest.freshness.revalidate_after_seconds if self.manifest else 0.0
        now = self._clock()
        self._retry_at = now + min(_MAX_PAUSE, pause)
        pause = max(min(_MAX_PAUSE, pause or _MAX_PAUSE), min(_MAX_PAUSE, retry_after or 0.0))
        self._ask_at = now + pause * random.uniform(0.5, 1.0)  # noqa: S311

    def _note_refusal(self, error: Refused) -> None:
        if error.status not in _FINAL:
            self._note_failure(f"the portal refused the registry ({error.status})", detail=str(error))
            return
        remedy = explanations.remedy(self._agent, error)
        log.error("registry of %s refused with %s: %s; %s", self._agent, error.status, error, remedy)
        self.stopped = self.last_stop = explanations.refused_registry(self._agent, error)
        self.stops += 1
        self.manifest = None
        self._etag = None

    def _take(self, reply: Reply, started: float, news: int) -> None:
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
        self.stopped = self._told = None
        self._checked_at = started
        self._heard = news
        self._retry_at = 0.0
        # Never later than is due: a call is to find it fresh, and a switch to be here in that time.
        period = self.manifest.freshness.revalidate_after_seconds
        self._ask_at = started + period * random.uniform(0.75, 0.95)  # noqa: S311

    def _read(self, reply: Reply) -> Manifest:
        parsed = manifest.parse(reply.body)
        if self._agent not in (parsed.agent.slug, parsed.agent.id):
            raise ManifestInvalid("agent.slug", f"is not {self._agent!r}")
        if parsed.surface != self._surface:
            raise ManifestInvalid("surface", f"is not {self._surface!r}")
        return parsed
