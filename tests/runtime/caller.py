"""A runtime as a process of its own that makes calls of tools: ``python -m tests.runtime.caller ORDERS``.

ORDERS is a JSON object (:class:`Orders`). The tool writes a line into the ledger when it starts, this process one into
the journal when a call has ended; so what happened is known from outside, whatever becomes of the process. Once its
calls are made it stays until SIGTERM.
"""

import asyncio
import itertools
import json
import os
import resource
import signal
import sys
from dataclasses import asdict, dataclass
from typing import Any

from hookgate import Runtime
from hookgate.session.session import Session
from hookgate.wire.pacing import Pacing

# Seconds between two calls that could not be made.
PAUSE = 0.2


@dataclass(frozen=True)
class Orders:
    """Everything that one process is told. ``calls`` of ``tool`` are made, ``at_once`` at the same time, each of which
    takes ``tool_seconds``; ``prefix`` begins their ids. With ``insist`` a blocked call doesn't count. ``file_limit``
    bounds the size of every file, in bytes."""

    url: str
    key: str
    ledger: str
    journal: str
    prefix: str
    calls: int
    agent: str = "procurement"
    tool: str = "oa__read"
    at_once: int = 8
    tool_seconds: float = 0.0
    insist: bool = False
    file_limit: int | None = None
    adopt_every: float = 1.0

    def write(self) -> str:
        """As an argument of the process."""
        return json.dumps(asdict(self))


class Caller:
    """Makes the calls."""

    def __init__(self, orders: Orders, session: Session) -> None:
        self._orders = orders
        self._session = session
        self._ledger = os.open(orders.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._journal = os.open(orders.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._names = itertools.count(1)
        self._left = orders.calls

    async def run(self) -> None:
        """All of them."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._orders.at_once):
                group.create_task(self._work())

    async def _work(self) -> None:
        while self._left > 0:
            self._left -= 1
            number = next(self._names)
            name = f"{self._orders.prefix}-{number}"

            async def tool(args: dict[str, Any], name: str = name) -> str:
                os.write(self._ledger, f"{name}\n".encode())
                await asyncio.sleep(self._orders.tool_seconds)
                return "done"

            outcome = await self._session.call_tool(
                self._orders.tool, {"n": number}, execute=tool, tool_call_id=name
            )
            line = {"id": name, "status": outcome.status, "by": outcome.blocked_by, "reason": outcome.reason}
            os.write(self._journal, f"{json.dumps(line)}\n".encode())
            if outcome.blocked:
                self._left += self._orders.insist
                await asyncio.sleep(PAUSE)


async def main(orders: Orders) -> None:
    """Make the calls, and stay until SIGTERM."""
    pacing = Pacing(pause_last=1.0, adopt_every=orders.adopt_every)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with (
        Runtime(orders.url, orders.key, name="caller", pacing=pacing) as runtime,
        runtime.session(orders.agent) as session,
    ):
        if orders.file_limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (orders.file_limit, resource.RLIM_INFINITY))
        await Caller(orders, session).run()
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(main(Orders(**json.loads(sys.argv[1]))))
