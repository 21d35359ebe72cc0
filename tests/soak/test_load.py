"""Everything at once for a while: who waits, writers, streams and taps. Nothing grows and nobody gets an error."""

import asyncio
import os
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from hookgate import Runtime

from tests.e2e.conftest import Stage
from tests.soak import counts
from tests.soak.crowd import FIRST, Crowd, Payment

SECONDS = 600 if counts.SOAK else 12
# When growth begins to count: threads, connections and caches are there by then.
SETTLED = 0.2
WAITING, WRITERS, STREAMS = (200, 20, 20) if counts.SOAK else (20, 4, 4)
# Of the memory that was in use when it had settled: what the allocator keeps comes and goes.
MEMORY_SLACK = 1.05
# In so short a time not every pool is full when it begins to count.
THREADS_SLACK = 0 if counts.SOAK else 4
PATIENCE = 60
# Between two calls of a writer, seconds. Without it they take all of two processors, and taps are turned away.
PAUSE = 2
STAGES = ["embedded", "production"] if counts.SOAK else ["embedded"]
CONFIG = """
apiVersion: hookgate/v1
organizations:
  - slug: load
    name: Load
    members: [{user: lea, email: lea@load.test, role: approver}]
    approval_policies: [{slug: patient, scope: approvers, timeout_seconds: 7200, start_by_seconds: 7200}]
    agents:
      - {slug: payer, name: Payer, max_pending: 5000, approval_policy: patient}
"""


@dataclass(frozen=True)
class Size:
    """What the web process and the database hold. ``memory`` in kilobytes."""

    threads: int
    connections: int
    memory: int
    files: int


def measure(stage: Stage) -> Size:
    """Of the web process, and of the portal's database where that counts connections."""
    pid = stage.portal.processes[0].pid
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    said = dict(line.split(":", 1) for line in lines)
    connections = 0
    if url := stage.portal.environment["DATABASE_URL"]:
        with psycopg.connect(url) as database:
            row = database.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            ).fetchone()
            connections = row[0] if row else 0
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return Size(int(said["Threads"]), connections, int(said["VmRSS"].split()[0]), files)


class Load:
    """All that is asked of the portal, until ``ends`` (on the loop's clock)."""

    def __init__(self, url: str, key: str, token: str, digest: str, ends: float) -> None:
        self.errors: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self._url, self._key, self._token = f"{url}/api/v1", key, token
        self._digest, self._ends = digest, ends
        limits = httpx.Limits(max_connections=None)
        self._client = httpx.AsyncClient(timeout=PATIENCE, trust_env=False, limits=limits)

    async def run(self) -> None:
        """Everybody at once."""
        async with self._client:
            everybody = [self._wait] * WAITING + [self._write] * WRITERS + [self._listen] * STREAMS
            await asyncio.gather(*(self._repeat(one) for one in everybody))

    async def _repeat(self, one: Callable[[], Awaitable[None]]) -> None:
        while asyncio.get_running_loop().time() < self._ends:
            try:
                await one()
            except (httpx.HTTPError, AssertionError) as error:
                self.errors[f"{one.__name__}: {error!r}"[:200]] += 1
                await asyncio.sleep(1)

    async def _ask(self, method: str, path: str, body: Any = None, *, person: bool = False) -> Any:
        """The answer's document. One that is turned away asks again when it is told to."""
        bearer = {"Authorization": f"Bearer {self._token if person else self._key}"}
        while True:
            answer = await self._client.request(method, f"{self._url}/{path}", json=body, headers=bearer)
            if answer.status_code != 503 or "Retry-After" not in answer.headers:
                break
            self.done["turned away"] += 1
            await asyncio.sleep(float(answer.headers["Retry-After"]))
        assert answer.status_code in (200, 201), f"{method} {path.split('/')[0]} {answer.status_code}"
        return answer.json()

    async def _create(self) -> Any:
        body = {
            "agent": "payer", "conversation_id": "load", "tool_call_id": uuid.uuid4().hex,
            "tool_name": "oa__pay", "tool_args": {"amount": 7}, "hook": "approval_gate",
            "registry_digest": self._digest,
        }  # fmt: skip
        return await self._ask("POST", "confirmations", body)

    async def _wait(self) -> None:
        asked = await self._create()
        while (left := self._ends - asyncio.get_running_loop().time()) > 0:
            found = await self._ask("GET", f"confirmations/{asked['id']}?wait={min(20, int(left) + 1)}")
            assert found["status"] == "pending", found["status"]
            self.done["waits"] += 1

    async def _write(self) -> None:
        asked = await self._create()
        path = f"confirmations/{asked['id']}"
        await self._ask("POST", f"{path}/respond", {"decision": "approve"}, person=True)
        using = {"args_digest": asked["args_digest"], "attempt": str(uuid.uuid4())}
        await self._ask("POST", f"{path}/consume", using)
        await self._ask("POST", f"{path}/outcome", {"status": "succeeded"})
        self.done["written"] += 1
        await asyncio.sleep(PAUSE)

    async def _listen(self) -> None:
        left = self._ends - asyncio.get_running_loop().time()
        headers = {"Authorization": f"Bearer {self._key}", "Accept": "text/event-stream"}
        try:
            async with asyncio.timeout(max(1.0, left)):
                async with self._client.stream(
                    "GET", f"{self._url}/agents/payer/events", headers=headers
                ) as answer:
                    assert answer.status_code == 200, answer.status_code
                    async for line in answer.aiter_lines():
                        self.done["events"] += line.startswith("event:")
        except TimeoutError:
            pass


async def tap(crowd: Crowd, ends: float, errors: Counter[str]) -> int:
    """Cards in the chat, tapped one after the other. How many."""
    url, key, number = crowd.stage.portal.url, crowd.stage.key, 0
    async with Runtime(url, key, name="load") as runtime:
        while asyncio.get_running_loop().time() < ends:
            try:
                await crowd.one(Payment(FIRST + number, "approve"), runtime)
            except AssertionError as error:
                errors[f"tap: {error}"[:300]] += 1
            number += 1
    return number


def prepare(stage: Stage, file: Path) -> tuple[str, str, str]:
    """An organization of its own: a runtime's key, a person's token, and the digest of the agent's registry."""
    file.write_text(CONFIG)
    stage.portal.manage("apply", str(file))
    key = stage.portal.manage("issue_key", "--agent", "load/payer").strip()
    token = stage.portal.manage("issue_token", "--user", "lea", "--scopes", "read,decide").strip()
    bearer = {"Authorization": f"Bearer {key}"}
    found = httpx.get(f"{stage.portal.url}/api/v1/agents/payer/registry", headers=bearer, trust_env=False)
    return key, token, found.raise_for_status().json()["digest"]


@pytest.mark.parametrize("stage", STAGES, indirect=True)
def test_nothing_grows_under_load(stage: Stage, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    key, token, digest = prepare(stage, tmp_path / "load.yaml")

    async def play() -> tuple[Load, int, Size, Size]:
        ends = asyncio.get_running_loop().time() + SECONDS
        load = Load(stage.portal.url, key, token, digest, ends)
        everything = asyncio.gather(load.run(), tap(Crowd(stage), ends, load.errors))
        await asyncio.sleep(SECONDS * SETTLED)
        early = await asyncio.to_thread(measure, stage)
        await asyncio.sleep(SECONDS * (1 - SETTLED) - 3)
        late = await asyncio.to_thread(measure, stage)
        _, taps = await everything
        return load, taps, early, late

    began = time.monotonic()
    load, taps, early, late = asyncio.run(play())
    counts.record(
        "load/waits, writers, streams and taps",
        database=request.node.callspec.id,
        rounds=load.done["written"] + load.done["waits"] + taps,
        faults={
            "errors": load.errors.total(),
            "threads_grown": max(0, late.threads - early.threads - THREADS_SLACK),
            "connections_grown": max(0, late.connections - early.connections),
            "kilobytes_grown": max(0, late.memory - int(early.memory * MEMORY_SLACK)),
        },
        seconds=round(time.monotonic() - began),
        **{name.replace(" ", "_"): figure for name, figure in sorted(load.done.items())},
        taps=taps,
        early=str(early),
        late=str(late),
        first_errors="; ".join(name for name, _ in load.errors.most_common(3)) or "none",
    )
    assert min(load.done["written"], load.done["waits"], load.done["events"], taps) > 0
