"""Send call-log entries to the portal, in batches and in the background."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import deque
from typing import Any, Final

from hookgate.pacing import Pacing
from hookgate.portal import Portal, Refused, Unreachable

log = logging.getLogger("hookgate")

_BATCH: Final = 1000
# Calls that are under way when the queue fills up still get their entry.
_OVERRUN: Final = 1000
_INDEX = re.compile(r"calls\[(\d+)\]")


class CallLog:
    """Bounded queues in memory, one per agent: what the portal refuses of one holds up no other."""

    def __init__(self, portal: Portal, pacing: Pacing) -> None:
        self.dropped = 0
        self._portal = portal
        self._pacing = pacing
        self._queues: dict[str, deque[dict[str, Any]]] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._batch_size = _BATCH

    def waiting(self, agent: str) -> int:
        """How many entries of an agent the portal has not taken yet."""
        return len(self._queues.get(agent, ()))

    def start(self) -> None:
        """Begin to send."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def add(self, entry: dict[str, Any], *, max_queued: int) -> None:
        """Queue one entry of contract section 4.3."""
        queue = self._queues.setdefault(entry["agent"], deque())
        if len(queue) >= max_queued + _OVERRUN:
            self.dropped += 1
            log.error("call-log entry %s dropped: %s are waiting", entry["id"], len(queue))
            return
        queue.append(entry)
        self._wake.set()

    async def close(self) -> None:
        """Send what is left, for a bounded time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pacing.close_bound):
                for _ in range(len(self._pacing.retry_delays)):
                    if await self._drain():
                        break
                    await asyncio.sleep(self._pacing.pause_first)
        left = sum(map(len, self._queues.values()))
        if left:
            log.error("%s call-log entries could not be sent", left)

    async def _run(self) -> None:
        pause = self._pacing.pause_first
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(self._pacing.log_delay)
            if await self._drain():
                pause = self._pacing.pause_first
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._pacing.pause_last)
                self._wake.set()

    async def _drain(self) -> bool:
        """Send until nothing is left; False when the portal doesn't take all of it now."""
        sent = [await self._drain_queue(queue) for queue in list(self._queues.values())]
        return all(sent)

    async def _drain_queue(self, queue: deque[dict[str, Any]]) -> bool:
        while queue:
            batch = [queue[index] for index in range(min(self._batch_size, len(queue)))]
            try:
                await self._portal.call("POST", "calls", body={"calls": batch})
            except Unreachable as error:
                log.info("call log: %s", error)
                return False
            except Refused as error:
                if not self._yield_to(error, queue, len(batch)):
                    return False
                continue
            # Removed only when acknowledged: an entry sent twice counts once, a lost one would be gone.
            for _ in batch:
                queue.popleft()
            self._batch_size = min(_BATCH, self._batch_size * 2)
        return True

    def _yield_to(self, error: Refused, queue: deque[dict[str, Any]], sent: int) -> bool:
        """Give up what the portal will never take; False when it may take the batch later."""
        if error.status == 413 and sent > 1:
            self._batch_size = sent // 2
            return True
        if error.status not in (400, 413):
            log.warning("call log refused: %s", error)
            return False
        named = _INDEX.search(error.detail)
        index = int(named.group(1)) if named else None
        if sent > 1 and (index is None or index >= sent):
            # It doesn't say which one: halve until it stands alone.
            self._batch_size = sent // 2
            return True
        index = 0 if index is None or sent == 1 else index
        bad = queue[index]
        del queue[index]
        self.dropped += 1
        log.error("call-log entry %s refused and dropped: %s", bad["id"], error)
        return True
