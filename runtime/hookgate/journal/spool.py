"""The call log on disk: what a runtime has begun and ended, until the portal has taken it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from hookgate.journal import segment, spoolfolder
from hookgate.journal.segment import Segment
from hookgate.journal.spoolfolder import Owner, SpoolFailed

__all__ = ["Kept", "Owner", "Shelf", "Spool", "SpoolFailed"]

log = logging.getLogger("hookgate")

# Bytes after which a new file is begun, so that what was sent can go while calls go on.
_FULL: Final = 4 * 1024 * 1024
# Days for which an entry waits for a runtime that may send it.
KEPT_DAYS: Final = 30
# Each orphan is held open until it is sent; the others wait for their turn.
_MAX_ORPHANS: Final = 64


@dataclass(slots=True, eq=False)
class Kept:
    """An entry that waits for the portal: where it lies on disk, or its text where the disk refused it.
    ``marked`` is the file with its started mark."""

    id: str
    segment: Segment | None
    offset: int
    length: int
    text: bytes = b""
    marked: Segment | None = None

    def read(self) -> bytes:
        """The entry's JSON. Raises OSError when the file was changed behind our back."""
        return self.segment.read(self.offset, self.length) if self.segment else self.text


class Spool:
    """All files of one runtime."""

    def __init__(self, root: str | os.PathLike[str] | None, portal: str) -> None:
        self.unreadable = 0
        self._given = root
        self._portal = portal
        self._shelves: dict[Owner, Shelf] = {}

    @cached_property
    def _chosen(self) -> tuple[Path, bool]:
        # Not before it is needed: a runtime that is only made makes no folder.
        return spoolfolder.choose(self._given)

    @property
    def root(self) -> Path:
        """The folder of all files."""
        return self._chosen[0]

    def shelf(self, owner: Owner) -> Shelf:
        """The files of one agent."""
        found = self._shelves.get(owner)
        if found is None:
            found = self._shelves[owner] = Shelf(self, owner)
        return found

    def folder(self, owner: Owner) -> Path:
        """Where an agent's files lie."""
        return spoolfolder.place(self.root, self._portal, owner)

    def create(self, owner: Owner) -> Segment:
        """A new file. Raises SpoolFailed."""
        folder = self.folder(owner)
        for attempt in (1, 2):
            spoolfolder.prepare(self.root, folder, named=self._chosen[1])
            try:
                return Segment.create(folder, self._portal, owner)
            except OSError as error:
                # Another process may just have tidied the empty folder away.
                if attempt == 2 or not isinstance(error, FileNotFoundError):
                    raise spoolfolder.explain(self.root, error) from None
        raise AssertionError

    def find_orphans(self, owner: Owner, limit: int) -> list[Segment]:
        """Locked files of processes that are gone, at most ``limit``. What can't be read is logged."""
        folder, found = self.folder(owner), list[Segment]()
        try:
            # Nobody may lead us to files elsewhere.
            if folder.is_dir():
                spoolfolder.prepare(self.root, folder, named=self._chosen[1])
            names = sorted(os.listdir(folder))
        except FileNotFoundError:
            return []
        except (OSError, SpoolFailed) as error:
            log.warning("call log: orphaned entries can't be looked for: %s", error)
            return []
        for name in names:
            if len(found) >= limit:
                break
            try:
                orphan = segment.adopt(folder / name, self._portal, owner)
            except OSError as error:
                log.warning("call log: %s is left alone: %s", folder / name, error)
                continue
            if orphan is not None:
                found.append(orphan)
        return found

    def expire(self) -> None:
        """Remove what nobody has written to or taken up for `KEPT_DAYS`: entries under a key that was mistyped, of an
        agent that is gone. Safe in another thread."""
        before = time.time() - KEPT_DAYS * 86_400
        for path in sorted(self.root.glob("*/*/*/*.jsonl")):
            try:
                if segment.expire(path, before):
                    log.error(
                        "call log: %s is removed: for %s days no runtime could send it", path, KEPT_DAYS
                    )
            except OSError as error:
                log.warning("call log: %s is left alone: %s", path, error)

    def tidy(self, owner: Owner) -> None:
        """Remove the agent's folder, and those above it, where they are empty."""
        folder = self.folder(owner)
        with contextlib.suppress(OSError):
            for part in (folder, *folder.parents[:2]):
                part.rmdir()

    def close(self) -> None:
        """Let go of every file; one without entries is removed."""
        for shelf in self._shelves.values():
            shelf.close()


class Shelf:
    """One agent's entries on disk. Use it on one thread, except for `collect`."""

    def __init__(self, spool: Spool, owner: Owner) -> None:
        self._spool = spool
        self._owner = owner
        self._current: Segment | None = None
        self._others: set[Segment] = set()
        self._marks: dict[str, Segment] = {}
        self._failed = False

    def check(self) -> None:
        """Make sure that the next mark can be written, as far as that can be known. Raises SpoolFailed."""
        if self._current is None or self._failed:
            # A line without a word says nothing, and shows whether there is room again.
            self._write(b" " * segment.WORD, b"")

    def mark(self, call_id: str, text: bytes) -> None:
        """Keep what is to be said of a call should the process die now. Raises SpoolFailed."""
        held, _ = self._write(segment.STARTED, text)
        held.holds += 1
        before = self._marks.pop(call_id, None)
        self._marks[call_id] = held
        if before is not None:
            self._release(before)

    def end(self, call_id: str, text: bytes) -> Kept:
        """Keep a call's entry. What the disk refuses is kept in memory: the call is over already."""
        marked = self._marks.pop(call_id, None)
        try:
            held, offset = self._write(segment.ENDED, text)
        except SpoolFailed as error:
            log.error("call log: entry %s is in memory only: %s", call_id, error)
            return Kept(call_id, None, 0, len(text), text, marked)
        held.holds += 1
        return Kept(call_id, held, offset, len(text), b"", marked)

    def forget(self, kept: Kept) -> None:
        """The portal has taken the entry, or never will."""
        for held in (kept.segment, kept.marked):
            if held is not None:
                self._release(held)

    def collect(self) -> list[tuple[Segment, list[Kept]]]:
        """Take up the files of processes that are gone, and read them; `take` makes them this shelf's.
        Safe in another thread."""
        limit = _MAX_ORPHANS - len(self._others)
        found = []
        for orphan in self._spool.find_orphans(self._owner, limit):
            try:
                found.append((orphan, self._read(orphan)))
            except OSError as error:
                log.error("call log: %s can't be read and is left alone: %s", orphan.path, error)
                orphan.close()
        return found

    def take(self, orphan: Segment, entries: list[Kept]) -> None:
        """Hold a collected file until its entries are sent."""
        orphan.holds = len(entries)
        if not entries:
            orphan.remove()
            return
        self._others.add(orphan)

    def close(self) -> None:
        """Let go of the files. What is in them is for the next process, also the marks of calls that go on."""
        if self._current is not None and not self._current.holds:
            self._current.remove()
        elif self._current is not None:
            self._current.close()
        for other in self._others:
            other.close()
        self._current = None
        self._others.clear()
        self._marks.clear()
        self._spool.tidy(self._owner)

    def _write(self, word: bytes, text: bytes) -> tuple[Segment, int]:
        try:
            held = self._open()
            offset = held.append(word, text)
        except OSError as error:
            self._failed = True
            raise spoolfolder.explain(self._spool.root, error) from None
        except SpoolFailed:
            self._failed = True
            raise
        self._failed = False
        return held, offset

    def _open(self) -> Segment:
        """The file to write to."""
        current = self._current
        if current is not None and current.size < _FULL and current.exists:
            return current
        new = self._spool.create(self._owner)
        if current is not None:
            self._others.add(current)
            if not current.holds:
                self._drop(current)
        self._current = new
        return new

    def _release(self, held: Segment) -> None:
        held.holds -= 1
        if held.holds > 0:
            return
        if held is self._current:
            held.empty()
        else:
            self._drop(held)

    def _drop(self, held: Segment) -> None:
        # After `close` it belongs to the next process.
        if held in self._others:
            self._others.discard(held)
            held.remove()

    def _read(self, orphan: Segment) -> list[Kept]:
        """The last line of every call: its end, or what its mark says of a process that died."""
        found: dict[str, Kept] = {}
        ended: set[str] = set()
        for word, offset, text in orphan.lines():
            if not word.strip() and not text:
                continue
            call_id = _read_id(word, text)
            if call_id is None:
                self._spool.unreadable += 1
                log.warning("call log: a line of %s bytes in %s can't be read", len(text), orphan.path)
            elif word == segment.ENDED or call_id not in ended:
                found[call_id] = Kept(call_id, orphan, offset, len(text))
                if word == segment.ENDED:
                    ended.add(call_id)
        return list(found.values())


def _read_id(word: bytes, text: bytes) -> str | None:
    if word not in (segment.STARTED, segment.ENDED):
        return None
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    call_id = entry.get("id") if isinstance(entry, dict) else None
    return call_id if isinstance(call_id, str) else None
