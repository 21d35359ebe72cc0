"""What the portal tells a runtime about an agent without being asked."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from typing import Final
from urllib.parse import quote

from hookgate import canonical
from hookgate.registry import manifest
from hookgate.registry.manifest import ManifestInvalid
from hookgate.registry.reading import Reader
from hookgate.registry.source import RegistrySource
from hookgate.wire import sse
from hookgate.wire.pacing import Pacing
from hookgate.wire.portal import Portal, Refused, Unreachable
from hookgate.wire.waits import Waits

log = logging.getLogger("hookgate")

# A stream that held for so long was a good one: the next failure is a first one.
_STEADY: Final = 10.0


class AgentFeed:
    """One agent's event stream, shared by all sessions of a runtime, and open as long as one of them is.

    It only makes things faster: registries are revalidated and requests are asked for without it too.
    ``healthy``: it is connected and greeted. ``epoch`` counts how often it was: what changed before the
    last time may have gone unheard.
    """

    def __init__(self, portal: Portal, agent: str, pacing: Pacing, waits: Waits) -> None:
        self.healthy = False
        self.epoch = 0
        self._portal = portal
        self._agent = agent
        self._pacing = pacing
        self._waits = waits
        self._sessions: Counter[RegistrySource] = Counter()
        self._stream: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._greeted: set[str] = set()
        self._retry: float | None = None

    def open(self, source: RegistrySource) -> None:
        """A session begins that runs on ``source``."""
        self._sessions[source] += 1
        if self._sessions[source] == 1:
            source.start()
        if self._stream is None:
            self._stream = asyncio.get_running_loop().create_task(self._listen())

    def close(self, source: RegistrySource) -> None:
        """That session is left."""
        self._sessions[source] -= 1
        if self._sessions[source] == 0:
            del self._sessions[source]
            source.stop()
        if not self._sessions and self._stream is not None:
            self._stream.cancel()
            self._ending.add(self._stream)
            self._stream.add_done_callback(self._ending.discard)
            self._stream = None
            self._go_down()

    async def aclose(self) -> None:
        """Wait until the streams of sessions that were left are closed."""
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        # Whoever is gone in a moment needs none.
        await asyncio.sleep(self._pacing.stream_delay)
        pause = self._pacing.pause_first
        while True:
            connected_at = loop.time()
            try:
                await self._follow()
                wanted = 0.0
            except Refused as error:
                wanted = self._note_refusal(error)
            except Unreachable as error:
                log.info("events of %s: %s; trying again", self._agent, error)
                wanted = error.retry_after or 0.0
            except Exception:
                log.exception("events of %s", self._agent)
                wanted = self._pacing.stream_last
            finally:
                self._go_down()
            if loop.time() - connected_at >= _STEADY:
                pause = self._pacing.pause_first
            wanted = max(pause, wanted, self._retry or 0.0)
            # Spread: a portal that comes back must not be met by all its runtimes at once.
            await asyncio.sleep(random.uniform(1.0, 1.5) * wanted)  # noqa: S311
            pause = min(pause * 2, self._pacing.stream_last)

    async def _follow(self) -> None:
        """One connection, to its end. Raises Unreachable and Refused."""
        parser = sse.Parser()
        self._greeted.clear()
        path = f"agents/{quote(self._agent, safe='')}/events"
        async with self._portal.listen(path, silence=self._pacing.stream_silence) as chunks:
            async for chunk in chunks:
                for name, data in parser.feed(chunk):
                    self._take(name, data)
                self._retry = parser.retry and min(parser.retry, self._pacing.stream_last)

    def _take(self, name: str, data: str) -> None:
        if name not in ("registry", "state", "confirmation"):
            return
        try:
            event = Reader.of(canonical.loads(data), name)
            if name == "confirmation":
                self._waits.tell(event.text("id"), event.text("status"))
                return
            if name == "registry":
                built = event.value.get("revision") is not None
                revision = event.integer("revision", 0) if built else None
                digest = event.optional_text("digest")
                for source in self._sessions:
                    source.hear_registry(revision, digest)
            else:
                state = manifest.read_state(event)
                for source in self._sessions:
                    source.hear_state(state)
        except (canonical.NotCanonical, ManifestInvalid) as error:
            raise Unreachable(f"the event stream is garbled: {error}") from None
        self._greet(name)

    def _greet(self, name: str) -> None:
        self._greeted.add(name)
        if self.healthy or len(self._greeted) < 2:
            return
        self.healthy = True
        self.epoch += 1
        self._waits.read_again(self)

    def _go_down(self) -> None:
        if self.healthy:
            self.healthy = False
            self._waits.fall_back(self)

    def _note_refusal(self, error: Refused) -> float:
        """Seconds until it is worth asking again. What a refusal means for the sessions, the registry says."""
        log.info("no events of %s: %s %s; polling", self._agent, error.status, error)
        if error.status in (401, 404):
            for source in self._sessions:
                source.invalidate()
        return self._pacing.stream_refused
