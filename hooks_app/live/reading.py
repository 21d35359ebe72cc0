"""Reading for those who wait: answers and rows, in the threads that answer everybody, each read shared by many."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import Generic, Self, TypeVar

from django.http import HttpResponse

from hooks_app.api import endpoint
from portal.serving.bounds import Scope
from portal.serving.handler import handler
from portal.serving.lanes import lanes
from portal.serving.threads import threads

K = TypeVar("K")
V = TypeVar("V")

# How many rows one batch reads, and how many requests one answers: each takes far longer than a row, and whoever is
# ready must not wait for all the others.
BATCH = 500
QUESTIONS = 8
RUNTIME_HEADER = endpoint.RUNTIME_HEADER.lower().encode()


async def ask(scope: Scope, *, seconds: float = 0) -> HttpResponse:
    """What the view at the scope's path answers: the same bytes as for a client that doesn't wait.

    The asker has ``seconds`` more than such a client: under load its turn may come that much later.
    """
    response = await handler().ask(scope, seconds=seconds)
    assert isinstance(response, HttpResponse)
    return response


@dataclass(frozen=True)
class Question:
    """A request that is asked again. Those that say the same get the same answer, whichever ``scope`` is read."""

    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    scope: Scope = field(compare=False)

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """The question that a request is. What a runtime calls itself is not for answers that others get too."""
        headers = tuple((name, value) for name, value in scope["headers"] if name != RUNTIME_HEADER)
        return cls(scope["path"], scope["query_string"], headers, scope)


def answer(questions: list[Question]) -> dict[Question, HttpResponse]:
    """What :func:`ask` would answer to each; for a :class:`Batch`."""
    return {question: _answer(question.scope) for question in questions}


def _answer(scope: Scope) -> HttpResponse:
    response = copy_context().run(handler().answer, scope, BytesIO())
    assert isinstance(response, HttpResponse)
    return response


class Batch(Generic[K, V]):
    """Reads what many waiters want to know in one job: whoever asks before it starts is part of it.

    ``read`` takes distinct keys, at most ``size``, and returns their values; a key without one is ``None``.
    """

    def __init__(self, read: Callable[[list[K]], Mapping[K, V]], *, size: int = BATCH) -> None:
        self._read = read
        self._size = size
        self._lock = threading.Lock()
        self._wanted: dict[K, Future[V | None]] = {}

    async def load(self, key: K) -> V | None:
        """The value as it is now or later, never as it was before the call."""
        with self._lock:
            future = self._wanted.get(key)
            if future is None:
                if not self._wanted:
                    threads().submit(lanes().looks, self._run)
                future = self._wanted[key] = Future()
        # Others may wait for the same future: who goes away must not cancel it.
        return await asyncio.shield(asyncio.wrap_future(future))

    def _run(self) -> None:
        with self._lock:
            wanted, self._wanted = self._wanted, {}
        keys = list(wanted)
        first, *others = [keys[start : start + self._size] for start in range(0, len(keys), self._size)]
        for part in others:
            threads().submit(lanes().looks, partial(self._settle, part, wanted))
        self._settle(first, wanted)

    def _settle(self, keys: list[K], wanted: dict[K, Future[V | None]]) -> None:
        try:
            found = self._read(keys)
        except Exception as error:  # noqa: BLE001  # it belongs to those who asked
            for key in keys:
                wanted[key].set_exception(error)
        else:
            for key in keys:
                wanted[key].set_result(found.get(key))
