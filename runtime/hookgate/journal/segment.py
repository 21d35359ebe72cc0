"""One file of the call log's spool: lines that are added, and a lock that tells a live writer from a dead one.

A write that has returned is the kernel's: it outlives the process, also one that is killed. It is not
synced, so a power cut may take the last seconds with it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from hookgate.journal.spoolfolder import Owner
from hookgate.wire import forks

_NAME: Final = re.compile(r"[0-9a-f]{32}\.jsonl")
_FORMAT: Final = "hookgate-spool/1"
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_CLOSED: Final = -1
_TRIES: Final = 10
STARTED: Final = b"started "
ENDED: Final = b"ended   "
WORD: Final = len(STARTED)


class Segment:
    """An open, locked file. ``holds`` counts the reasons to keep it: calls under way and entries that the
    portal has not taken. Not for use by several threads at once."""

    def __init__(self, path: Path, file: int, size: int) -> None:
        self.path = path
        self.size = size
        self.holds = 0
        self._file = file
        self._torn = False
        self._header = 0
        self._is_ours = True
        forks.hold(self)

    @classmethod
    def create(cls, folder: Path, portal: str, owner: Owner) -> Self:
        """A new file, with a first line that says whose it is. Raises OSError."""
        for _ in range(_TRIES):
            path = folder / f"{uuid.uuid4().hex}.jsonl"
            file = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
            segment = cls(path, file, 0)
            # Whoever looks for orphans may have been here between the two steps, and removed it.
            if _lock(file) and segment.exists:
                try:
                    segment.append(_header(portal, owner), b"")
                except OSError:
                    segment.remove()
                    raise
                segment._header = segment.size
                return segment
            os.close(file)
        raise OSError(errno.EAGAIN, "another process locks every new file", str(folder))

    @property
    def exists(self) -> bool:
        """Whether the file still has a name: what is written to one without is lost with the process."""
        return os.fstat(self._file).st_nlink > 0

    def append(self, word: bytes, text: bytes) -> int:
        """Add one line; the offset of ``text``. Raises OSError, and then nothing was added."""
        line = b"%b%b%b\n" % (b"\n" if self._torn else b"", word, text)
        try:
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        except OSError:
            self._cut(self.size)
            raise
        self._torn = False
        self.size += written
        return self.size - len(text) - 1

    def read(self, offset: int, length: int) -> bytes:
        """A part of it. Raises OSError when it isn't there any more."""
        found = os.pread(self._file, length, offset)
        if len(found) < length:
            raise OSError(errno.EIO, "the file became shorter", str(self.path))
        return found

    def empty(self) -> None:
        """Forget all lines but the first."""
        if self.size > self._header:
            self.size = self._header
            self._cut(self.size)

    def _cut(self, size: int) -> None:
        try:
            os.ftruncate(self._file, size)
        except OSError:
            self._torn = True
            self.size = os.fstat(self._file).st_size

    def remove(self) -> None:
        """Delete the file."""
        # First the name, then the lock: nobody can take up a file that is on its way out.
        if self._is_ours:
            with contextlib.suppress(OSError):
                self.path.unlink()
        self.close()

    def close(self) -> None:
        """Leave the file to whoever takes it up."""
        # The number may soon be somebody else's, and a child must not take it from them.
        file, self._file = self._file, _CLOSED
        if file != _CLOSED:
            os.close(file)

    def give_back(self) -> None:
        """In a child of a fork: file and lock are the parent's."""
        self._is_ours = False
        if self._file != _CLOSED:
            with contextlib.suppress(OSError):
                forks.let_go(self._file)

    def lines(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Word, offset and text of every whole line after the first. Raises OSError."""
        content = self.read(0, self.size)
        begin = content.find(b"\n") + 1
        while (end := content.find(b"\n", begin)) >= 0:
            yield content[begin : begin + WORD], begin + WORD, content[begin + WORD : end]
            begin = end + 1
        if begin < len(content):
            # The process died while it wrote this.
            yield b"", begin, content[begin:]


def adopt(path: Path, portal: str, owner: Owner) -> Segment | None:
    """The file of a process that is gone; None for one whose writer lives, and for what isn't ours.

    An empty one is removed: its writer died before it had anything to say. Raises OSError.
    """
    if not _NAME.fullmatch(path.name):
        return None
    try:
        file = os.open(path, _FLAGS | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    facts = os.fstat(file)
    ours = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid()
    if not ours or not _lock(file):
        os.close(file)
        return None
    # Only now: until the lock was ours its writer, or another adopter, could have changed it.
    facts = os.fstat(file)
    segment = Segment(path, file, facts.st_size)
    if facts.st_nlink == 0:
        segment.close()
        return None
    if facts.st_size == 0:
        segment.remove()
        return None
    head = _header(portal, owner) + b"\n"
    if os.pread(file, len(head), 0) != head:
        segment.close()
        return None
    segment._header = len(head)
    return segment


def expire(path: Path, before: float) -> bool:
    """Remove the file if nobody holds it and nothing was written since ``before`` (seconds since 1970). Whether it was
    removed. Raises OSError."""
    if not _NAME.fullmatch(path.name):
        return False
    try:
        file = os.open(path, _FLAGS | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        facts = os.fstat(file)
        left = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and facts.st_mtime < before
        if not left or not _lock(file):
            return False
        path.unlink(missing_ok=True)
        return True
    finally:
        os.close(file)


def _header(portal: str, owner: Owner) -> bytes:
    facts = {"format": _FORMAT, "portal": portal, "organization": owner.organization, "agent": owner.agent}
    return json.dumps(facts).encode()


def _lock(file: int) -> bool:
    """Whether the file is this process's now. Raises OSError where the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
