"""A runtime as a process of its own, which may be killed at any moment: ``python -m tests.crashes.agent ORDERS``.

ORDERS is a JSON file (:class:`Orders`). The tool's ledger and this process's journal are written line by line and
synced, so that what ran and what was heard are known from outside, whatever happens to the process. Started again with
the same orders it makes the calls whose end its journal lacks, with the same ids. Without calls of its own to make it
ends with exit code 0; after SIGTERM with 143.
"""

import asyncio
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hookgate import Outcome, Runtime

STOPPED = 143
# Seconds between two tries of a call that found no portal, and for one short request.
PAUSE = 1.0
TIMEOUT = 10.0


@dataclass(frozen=True)
class Call:
    """One tool call that the model wants."""

    conversation_id: str
    tool_call_id: str
    tool: str
    amount: int


@dataclass(frozen=True)
class Orders:
    """Everything that one agent process is told. Paths are absolute; ``tool_seconds`` is how long the tool takes after
    its entry in the ledger."""

    url: str
    key: str
    name: str
    user: dict[str, str]
    ledger: str
    journal: str
    calls: tuple[Call, ...]
    at_once: int = 6
    tool_seconds: float = 0.05

    def write(self, path: Path) -> Path:
        """Keep them as the file that the process is started with."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> "Orders":
        """The orders in a file."""
        fields = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**fields, "calls": tuple(Call(**call) for call in fields["calls"])})


def append(path: str, row: dict[str, Any]) -> None:
    """Add a line that outlives the process, and the machine."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, (json.dumps(row) + "\n").encode())
        os.fsync(file)
    finally:
        os.close(file)


def read(path: str | Path) -> list[dict[str, Any]]:
    """The whole lines of a ledger or a journal."""
    path = Path(path)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


class Agent:
    """Makes the calls, each in its own conversation, a few at a time."""

    def __init__(self, orders: Orders, runtime: Runtime) -> None:
        self._orders = orders
        self._runtime = runtime
        self._places = asyncio.Semaphore(orders.at_once)

    async def run(self) -> None:
        """Make every call whose end is not in the journal."""
        ended = {row["tool_call_id"] for row in read(self._orders.journal) if row["type"] == "ended"}
        async with asyncio.TaskGroup() as group:
            for call in self._orders.calls:
                if call.tool_call_id not in ended:
                    group.create_task(self._one(call))

    async def _one(self, call: Call) -> None:
        async with self._places:
            while True:
                outcome = await self._call(call)
                row = {
                    "type": "ended",
                    "tool_call_id": call.tool_call_id,
                    "request": outcome.confirmation_id,
                    "status": outcome.status,
                    "reason": outcome.reason,
                    "observation": outcome.observation,
                }
                if not _is_out_of_reach(outcome):
                    append(self._orders.journal, row)
                    return
                append(self._orders.journal, {**row, "type": "out of reach"})
                await asyncio.sleep(PAUSE)

    async def _call(self, call: Call) -> Outcome:
        async def pay(args: dict[str, Any]) -> str:
            append(self._orders.ledger, {"tool_call_id": call.tool_call_id, "args": args})
            await asyncio.sleep(self._orders.tool_seconds)
            return f"paid {args['amount']}"

        def note(event: dict[str, Any]) -> None:
            if event["type"] == "awaiting_confirmation":
                append(
                    self._orders.journal,
                    {"type": "waits", "tool_call_id": call.tool_call_id, "request": event["id"]},
                )

        async with self._runtime.session(
            "procurement", user=self._orders.user, conversation_id=call.conversation_id, on_event=note
        ) as session:
            return await session.call_tool(
                call.tool, {"amount": call.amount}, execute=pay, tool_call_id=call.tool_call_id
            )


def _is_out_of_reach(outcome: Outcome) -> bool:
    """Whether the call said nothing about what people decided, so that a loop makes it again."""
    return outcome.blocked and (
        "out of reach" in (outcome.reason or "") or outcome.blocked_by in {"registry", "session"}
    )


async def main(orders: Orders) -> int:
    """Make the calls; returns the exit code."""
    async with Runtime(orders.url, orders.key, name=orders.name, timeout=TIMEOUT) as runtime:
        work = asyncio.create_task(Agent(orders, runtime).run())

        def stop() -> None:
            runtime.detach()
            work.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        try:
            await work
        except asyncio.CancelledError:
            return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Orders.read(Path(sys.argv[1])))))
