"""Ids for the calls of a loop: one for each call of a conversation, the same ones when it is played again.

Many models number their calls anew in each turn. What the portal knows a call by must be its own all the same, or the
second `call_0` of a conversation would be taken for the first.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from typing import Any, Final
from weakref import WeakKeyDictionary

from hookgate import call_ids
from hookgate.session.process import Process
from hookgate.session.session import Session

# What is remembered: conversations of a runtime, and calls of a conversation. The oldest go first.
_CONVERSATIONS: Final = 10_000
_CALLS: Final = 50_000
# A model that gives no id has its calls numbered.
_UNNAMED: Final = "call"

_Run = tuple[str, int]


class _Conversation:
    """Which calls have which ids. A call is told by its run, the model's id and how often the run had that before."""

    def __init__(self) -> None:
        self.finished: Counter[str] = Counter()
        self._given: OrderedDict[tuple[_Run, str, int], str] = OrderedDict()
        self._taken: set[str] = set()

    def give(self, run: _Run, own: str, before: int) -> str:
        key = (run, own, before)
        found = self._given.get(key)
        if found is None:
            found = self._given[key] = self._choose(own)
            self._taken.add(found)
            if len(self._given) > _CALLS:
                self._taken.discard(self._given.popitem(last=False)[1])
        return found

    def _choose(self, own: str) -> str:
        chosen, number = own, 1
        while chosen in self._taken:
            number += 1
            chosen = f"{call_ids.shorten(own)}#{number}"
        return chosen


class RunIds:
    """The ids of one run of a loop, in the order in which the model makes its calls."""

    def __init__(self, conversation: _Conversation, name: str | None, prompt: str) -> None:
        self._conversation = conversation
        self._name = name
        self._key = "name:" + name if name else "prompt:" + _digest(prompt)
        # A run that was broken off is played again by the next of the same prompt; one that ended is not.
        self._run = (self._key, 0 if name else conversation.finished[self._key])
        self._before: Counter[str] = Counter()

    def give(self, own: Any) -> Any:
        """The id under which a call is made that the model calls ``own``. What is no text stays, for `call_tool` to
        refuse."""
        if own is None or (isinstance(own, str) and not own):
            own = _UNNAMED
        if not isinstance(own, str):
            return own
        if self._name:
            own = f"{self._name}:{own}"
        before = self._before[own]
        self._before[own] += 1
        return self._conversation.give(self._run, own, before)

    def finish(self) -> None:
        """The run came to its end."""
        self._conversation.finished[self._key] += 1


_known: Final[WeakKeyDictionary[Process, OrderedDict[tuple[str, str, str], _Conversation]]] = (
    WeakKeyDictionary()
)


def begin(session: Session, prompt: str, name: str | None = None) -> RunIds:
    """The ids for one run. With a ``name`` they begin with it, and are the run's alone in whatever process."""
    conversations = _known.setdefault(session.process, OrderedDict())
    key = (session.agent, session.by.path, session.conversation_id)
    conversation = conversations.setdefault(key, _Conversation())
    conversations.move_to_end(key)
    if len(conversations) > _CONVERSATIONS:
        conversations.popitem(last=False)
    return RunIds(conversation, name, prompt)


def _digest(text: str) -> str:
    return hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).hexdigest()
