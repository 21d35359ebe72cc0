"""Keep call-log entries on disk until the portal has them; send them in batches and in the background."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import deque
from typing import Any, Final

from hookgate.journal import entries
from hookgate.journal.spool import Kept, Owner, Spool
from hookgate.wire.pacing import Pacing
from hookgate.wire.portal import Portal, Refused, Reply, Unreachable

log = logging.getLogger("hookgate")

_BATCH: Final = 1000
# Bytes of one request; the portal takes twice that.
_MAX_BODY: Final = 4 * 1024 * 1024
# Calls that are under way when the queue fills up still get their entry.
_OVERRUN: Final = 1000
_INDEX = re.compile(r"calls\[(\d+)\]")


class CallLog:
    """Bounded queues, one per agent: what the portal refuses of one holds up no other.

    ``dropped`` counts entries that were given up. An entry is on disk before it is here.
    """

    def __init__(self, portal: Portal, pacing: Pacing, spool: Spool, key: str) -> None:
        self.dropped = 0
        self.spool = spool
        self._portal = portal
        self._pacing = pacing
        self._key = key
        self._owners: dict[str, Owner] = {}
        self._queues: dict[Owner, deque[Kept]] = {}
        self._known: set[Owner] = set()
        self._unvisited: set[Owner] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = self._expired = False
        self._batch_size = _BATCH

    def admit(self, reference: str, organization: str, agent: str) -> None:
        """The portal has said who ``reference`` (slug or id) is: entries that other processes of this
        machine left behind are sent with this key from now on."""
        owner = Owner(organization, agent)
        self._owners[reference] = owner
        found = {owner, Owner.of_key(self._key, reference)} - self._known
        if found:
            self._known |= found
            self._unvisited |= found
            self._wake.set()

    def waiting(self, reference: str) -> int:
        """How many entries of an agent the portal has not taken yet."""
        owners = {self._owner(reference), Owner.of_key(self._key, reference)}
        return sum(len(self._queues.get(owner, ())) for owner in owners)

    def check(self, reference: str) -> None:
        """Make sure that the entry of one more call can be kept. Raises SpoolFailed."""
        self.spool.shelf(self._owner(reference)).check()

    def mark(self, reference: str, entry: dict[str, Any]) -> None:
        """Keep the entry that a call gets if the process dies before `add`. Raises SpoolFailed."""
        self.spool.shelf(self._owner(reference)).mark(entry["id"], entries.dump(entry))

    def add(self, reference: str, entry: dict[str, Any], *, max_queued: int) -> None:
        """Keep and queue one entry of contract section 4.3."""
        owner = self._owner(reference)
        queue = self._queues.setdefault(owner, deque())
        shelf = self.spool.shelf(owner)
        kept = shelf.end(entry["id"], entries.dump(entry))
        if self._closed:
            # A tool that outlived the runtime: its entry is for the next process.
            shelf.close()
        elif len(queue) >= max_queued + _OVERRUN:
            self._drop(owner, kept, f"{len(queue)} are waiting")
        else:
            queue.append(kept)
            self._wake.set()

    def start(self) -> None:
        """Begin to send."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Send what is left, for a bounded time; what can't be sent stays on disk."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pacing.close_bound):
                for _ in range(len(self._pacing.retry_delays)):
                    if await self._drain() is None:
                        break
                    await asyncio.sleep(self._pacing.pause_first)
        left = [kept for queue in self._queues.values() for kept in queue]
        lost = sum(kept.segment is None for kept in left)
        if len(left) > lost:
            log.error(
                "%s call-log entries could not be sent; they stay in %s for the next process",
                len(left) - lost,
                self.spool.root,
            )
        if lost:
            log.error("%s call-log entries could be neither sent nor written to disk", lost)
        self._closed = True
        self.spool.close()

    def _owner(self, reference: str) -> Owner:
        return self._owners.get(reference) or Owner.of_key(self._key, reference)

    def _drop(self, owner: Owner, kept: Kept, reason: str) -> None:
        self.dropped += 1
        log.error("call-log entry %s dropped: %s", kept.id, reason)
        self.spool.shelf(owner).forget(kept)

    async def _run(self) -> None:
        pause = self._pacing.pause_first
        loop = asyncio.get_running_loop()
        visit_at = loop.time() + self._pacing.adopt_every
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(visit_at):
                    await self._wake.wait()
            if loop.time() >= visit_at:
                self._unvisited |= self._known
                visit_at = loop.time() + self._pacing.adopt_every
            self._wake.clear()
            await asyncio.sleep(self._pacing.log_delay)
            try:
                await self._adopt()
                obstacle = await self._drain()
            except Exception:
                # Whatever it was: entries that nobody sends any more would stop the agent for good.
                log.exception("call log: sending failed")
                obstacle = 0.0
            if obstacle is None:
                pause = self._pacing.pause_first
            else:
                await asyncio.sleep(max(pause, obstacle))
                pause = min(pause * 2, self._pacing.pause_last)
                self._wake.set()

    async def _adopt(self) -> None:
        """Queue what processes that are gone have left behind; remove, once, what nobody will ever send."""
        if self._unvisited and not self._expired:
            self._expired = True
            await self._adopt_known()
            await asyncio.get_running_loop().run_in_executor(None, self.spool.expire)
        await self._adopt_known()

    async def _adopt_known(self) -> None:
        while self._unvisited:
            owner = self._unvisited.pop()
            shelf = self.spool.shelf(owner)
            work = asyncio.get_running_loop().run_in_executor(None, shelf.collect)
            try:
                found = await asyncio.shield(work)
            except asyncio.CancelledError:
                # What the thread has locked by now is let go of, for the next process.
                for orphan, _ in await work:
                    orphan.close()
                raise
            queue = self._queues.setdefault(owner, deque())
            for orphan, waiting in found:
                shelf.take(orphan, waiting)
                queue.extend(waiting)
                log.info("call log: %s entries of a process that is gone are taken up", len(waiting))

    async def _drain(self) -> float | None:
        """Send until nothing is left: None. Else the seconds that the portal wants to be left alone for."""
        ends = [await self._drain_queue(owner, queue) for owner, queue in list(self._queues.items())]
        return max((end for end in ends if end is not None), default=None)

    async def _drain_queue(self, owner: Owner, queue: deque[Kept]) -> float | None:
        while queue:
            batch, body = self._read_batch(owner, queue)
            if not batch:
                continue
            try:
                _check_taken(await self._portal.call("POST", "calls", body=body), len(batch))
            except Unreachable as error:
                log.info("call log: %s", error)
                return error.retry_after or 0.0
            except Refused as error:
                if not self._yield_to(error, owner, queue, batch):
                    return 0.0
                continue
            # Removed only when acknowledged: an entry sent twice counts once, a lost one would be gone.
            shelf = self.spool.shelf(owner)
            for kept in batch:
                queue.popleft()
                shelf.forget(kept)
            self._batch_size = min(_BATCH, self._batch_size * 2)
        return None

    def _read_batch(self, owner: Owner, queue: deque[Kept]) -> tuple[list[Kept], bytes]:
        """The first entries that go into one request, and its body."""
        batch: list[Kept] = []
        texts: list[bytes] = []
        size = 0
        while len(batch) < min(self._batch_size, len(queue)):
            kept = queue[len(batch)]
            size += kept.length
            if batch and size > _MAX_BODY:
                break
            try:
                texts.append(kept.read())
            except OSError as error:
                del queue[len(batch)]
                self._drop(owner, kept, f"it is gone from the disk ({error})")
            else:
                batch.append(kept)
        return batch, b'{"calls":[%b]}' % b",".join(texts)

    def _yield_to(self, error: Refused, owner: Owner, queue: deque[Kept], batch: list[Kept]) -> bool:
        """Give up what the portal will never take; False when it may take the batch later."""
        sent = len(batch)
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
        self._drop(owner, bad, f"the portal refused it: {error}")
        return True


def _check_taken(reply: Reply, sent: int) -> None:
    """Raise Unreachable unless the answer says that every entry is kept: what it names is removed from the disk."""
    body = reply.body if isinstance(reply.body, dict) else {}
    counts: list[Any] = [body.get("accepted"), body.get("duplicates")]
    if (
        reply.status != 202
        or not all(type(count) is int and count >= 0 for count in counts)
        or sum(counts) != sent
    ):
        raise Unreachable("the portal's answer does not say that the entries were taken")
