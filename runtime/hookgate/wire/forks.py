"""What a process holds is its own: a child of a fork gives back at once what it got of its parent's.

A lock on a file and a connection last as long as any process holds them. With a copy in a child, the call-log entries
of a parent that was killed would be taken up by nobody, and its connections would look alive to the portal.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Held(Protocol):
    """Something that belongs to the process that made it."""

    def give_back(self) -> None:
        """This process is a child, and the thing is its parent's. Called once, with no other thread running."""


_held: Final[WeakSet[Held]] = WeakSet()


def hold(thing: Held) -> None:
    """``thing`` is this process's: its children give it back."""
    _held.add(thing)


def let_go(file: int) -> None:
    """Close a child's copy of a file or socket. The number stays taken, by nothing, so that whoever closes it later
    closes nobody else's."""
    empty = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.dup2(empty, file, inheritable=False)
    finally:
        os.close(empty)


def _give_back_all() -> None:
    for thing in list(_held):
        thing.give_back()
    _held.clear()


os.register_at_fork(after_in_child=_give_back_all)
