"""What came in and what went out: API calls received, callbacks sent."""

from collections import Counter, deque
from dataclasses import asdict, dataclass
from typing import Any

KEEP = 2000


@dataclass
class Call:
    """One call of the open API. `early`: it came before the reset that a 429 to the same endpoint and token named."""

    number: int
    at: float
    endpoint: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: str
    app_id: str = ""
    status: int | None = None
    code: int | None = None
    early: bool = False
    failure: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Ledger:
    """The last calls and callbacks, and counts of all."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.calls: deque[Call] = deque(maxlen=KEEP)
        self.callbacks: deque[dict[str, Any]] = deque(maxlen=KEEP)
        self.counts: dict[str, Counter[str]] = {}
        self.not_before: dict[tuple[str, str], float] = {}
        self.number = 0

    def open(self, call: Call) -> None:
        """Notes a call that has just come in."""
        self.number += 1
        call.number = self.number
        call.early = call.at < self.not_before.get(
            (call.endpoint, call.headers.get("authorization", "")), 0.0
        )
        self.calls.append(call)

    def close(self, call: Call, *, status: int | None, code: int | None, reset_after: float | None) -> None:
        """Notes its answer; `status` None: the connection was closed without one."""
        call.status, call.code = status, code
        self.counts.setdefault(call.app_id or "unknown", Counter())[call.endpoint] += 1
        if reset_after is not None:
            key = (call.endpoint, call.headers.get("authorization", ""))
            self.not_before[key] = call.at + reset_after

    def counters(self) -> dict[str, dict[str, int]]:
        """Calls per app id and endpoint."""
        return {app_id: dict(counts) for app_id, counts in self.counts.items()}
