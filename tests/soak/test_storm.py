"""Many gated calls at once in one process: none runs unapproved, none is lost, none twice; with or without a stream."""

import asyncio
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from hookgate import Outcome, Runtime
from hookgate.registry.source import RegistrySource
from hookgate.session.session import Session

from examples.portal_process import PortalProcess
from tests import services
from tests.contract.shell import Shell
from tests.runtime.harness import eventually
from tests.soak import counts

# More than the long polls that are under way at once.
CALLS = 500 if counts.SOAK else 80
# Seconds in which all of it must be over, on a machine that has other things to do as well.
PATIENCE = 900.0 if counts.SOAK else 300.0
DECIDERS = 4
SLACK = 5.0
CONFIG = """
apiVersion: hookgate/v1
organizations:
  - slug: storm
    name: Storm
    members:
      - {user: bob, email: bob@storm.test, role: approver}
      - {user: kim, email: kim@storm.test, role: member}
    approval_policies:
      - {slug: patient, scope: approvers, timeout_seconds: 600, start_by_seconds: 600}
      - {slug: hasty, scope: approvers, timeout_seconds: 5}
    connectors:
      - slug: oa
        actions:
          - {name: pay, requires_confirmation: true, policy: patient}
          - {name: rush, requires_confirmation: true, policy: hasty}
    agents:
      - {slug: payer, name: Payer, owner: kim, max_pending: 5000}
      - slug: reader
        name: Reader
        owner: kim
        unlisted_tools: allow
        freshness: {revalidate_after_seconds: 2, max_stale_seconds: 60}
"""
USER = {"id": "kim", "name": "Kim", "email": "kim@storm.test"}


class Deaf(httpx.AsyncHTTPTransport):
    """A network that lets no event stream through."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            return httpx.Response(404, json={"code": "not_found"})
        return await super().handle_async_request(request)


def network(way: str) -> httpx.AsyncBaseTransport | None:
    """What a runtime's requests go through."""
    return None if way == "with the stream" else Deaf(limits=httpx.Limits(max_connections=None))


class Storm:
    """The calls, their people, and what became of them. ``ledger`` counts the tool's runs by the call's number."""

    def __init__(self, url: str, token: str, count: int) -> None:
        self.ledger: Counter[int] = Counter()
        self.plans = {n: ("approve", "reject", "silence")[n % 3] for n in range(count)}
        self.most_files = 0
        self._chance = random.Random(count)
        self._asked: asyncio.Queue[str] = asyncio.Queue()
        self._people = httpx.AsyncClient(
            base_url=f"{url}/api/v1/",
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            trust_env=False,
        )

    def show(self, event: dict[str, Any]) -> None:
        """What the session tells."""
        if event["type"] == "awaiting_confirmation":
            self._asked.put_nowait(event["id"])

    async def run(self, session: Session) -> list[Outcome]:
        """All calls at once, and people who decide in another order than they were asked."""
        files = len(os.listdir("/proc/self/fd"))
        async with self._people, asyncio.timeout(PATIENCE):
            calls = [asyncio.create_task(self._call(session, n)) for n in self.plans]
            deciders = [asyncio.create_task(self._decide()) for _ in range(DECIDERS)]
            while not all(call.done() for call in calls):
                self.most_files = max(self.most_files, len(os.listdir("/proc/self/fd")) - files)
                await asyncio.wait(calls, timeout=0.1)
                for task in deciders:
                    assert not task.done(), task.exception()
            for task in deciders:
                task.cancel()
            await asyncio.gather(*deciders, return_exceptions=True)
            return await asyncio.gather(*calls)

    async def _call(self, session: Session, number: int) -> Outcome:
        async def tool(args: dict[str, Any]) -> str:
            self.ledger[args["n"]] += 1
            return "paid"

        args = {"n": number, "way": session.conversation_id}
        name = "oa__rush" if self.plans[number] == "silence" else "oa__pay"
        return await session.call_tool(name, args, execute=tool, tool_call_id=f"call-{number}")

    async def _decide(self) -> None:
        while True:
            request_id = await self._asked.get()
            resource = (await self._ask("GET", f"confirmations/{request_id}")).json()
            plan = self.plans[resource["tool_args"]["n"]]
            if plan == "silence":
                continue
            await asyncio.sleep(self._chance.uniform(0, 0.1))
            body = {"decision": plan, "reason": "drill"}
            await self._ask("POST", f"confirmations/{request_id}/respond", json=body)

    async def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Ask until there is an answer: where so many connect at once, some are turned away. The same decision
        again is the same."""
        while True:
            try:
                answer = await self._people.request(method, path, **more)
            except httpx.TransportError:
                await asyncio.sleep(0.2)
                continue
            if answer.status_code == 503:
                await asyncio.sleep(float(answer.headers["Retry-After"]))
                continue
            assert answer.status_code == 200, answer.text
            return answer


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PortalProcess, Shell]]:
    """An embedded portal with an agent of which much is asked."""
    folder: Path = tmp_path_factory.mktemp("storm")
    (folder / "storm.yaml").write_text(CONFIG)
    with PortalProcess(folder) as portal:
        shell = Shell(portal)
        try:
            services.migrate(portal)
            done = shell.run("apply", str(folder / "storm.yaml"))
            assert done.returncode == 0, done
            portal.start()
            yield portal, shell
        finally:
            shell.close()


WAYS = ["with the stream", "without"]


@pytest.mark.parametrize("way", WAYS)
def test_many_gated_calls_at_once(stage: tuple[PortalProcess, Shell], way: str) -> None:
    portal, shell = stage
    key = shell.run("issue_key", "--agent", "storm/payer").stdout.strip()
    token = shell.run("issue_token", "--user", "bob", "--scopes", "read,decide").stdout.strip()
    storm = Storm(portal.url, token, CALLS)

    async def run() -> list[Outcome]:
        transport = network(way)
        async with (
            Runtime(portal.url, key, name="storm", transport=transport, timeout=30) as runtime,
            runtime.session("payer", user=USER, conversation_id=way, on_event=storm.show) as session,
        ):
            outcomes = await storm.run(session)
            assert runtime.feed("payer").healthy == (way == "with the stream")
            return outcomes

    outcomes = asyncio.run(run())
    due = {n for n, plan in storm.plans.items() if plan == "approve"}
    ends = Counter("ran" if outcome.result == "paid" else outcome.blocked_by for outcome in outcomes)
    counts.record(
        f"storm_{way.replace(' ', '_')}",
        rounds=CALLS,
        database="sqlite",
        faults={
            "unapproved": sum(n not in due for n in storm.ledger),
            "lost": len(due - set(storm.ledger)),
            "twice": sum(runs > 1 for runs in storm.ledger.values()),
            "unanswered": sum(outcome.blocked_by not in (None, "approval_gate") for outcome in outcomes),
        },
        ran=ends["ran"],
        blocked=ends["approval_gate"],
        lost_because="; ".join(sorted({str(outcomes[n].reason) for n in due - set(storm.ledger)}))
        or "none lost",
        most_files=storm.most_files,
    )
    # Three lanes of short requests, the polls or the reads, the stream, and the people's own.
    assert storm.most_files < 3 * 32 + 64 + 1 + 2 * DECIDERS + 20


@pytest.mark.parametrize("way", WAYS)
def test_a_halt_reaches_a_runtime_that_makes_no_call(stage: tuple[PortalProcess, Shell], way: str) -> None:
    portal, shell = stage
    key = shell.run("issue_key", "--agent", "storm/reader").stdout.strip()
    times: list[float] = []

    async def run() -> None:
        async with (
            Runtime(portal.url, key, name="reader", transport=network(way), timeout=30) as runtime,
            runtime.session("reader", user=USER) as session,
            asyncio.timeout(PATIENCE),
        ):
            feed, source = runtime.feed("reader"), runtime.source("reader", "chat")
            await eventually(lambda: feed.healthy or way == "without", PATIENCE)
            for command in ("halt", "resume") * (10 if counts.SOAK else 1):
                reason = ("--reason", "drill") if command == "halt" else ()
                done = asyncio.create_task(asyncio.to_thread(_switch, shell, command, *reason))
                halted = command == "halt"
                await eventually(partial(_is_halted, source, halted), PATIENCE)
                seen = time.monotonic()
                times.append(max(0.0, seen - await done))
                outcome = await session.call_tool("read", {}, execute=lambda args: "read")
                assert outcome.blocked_by == ("halted" if halted else None)

    asyncio.run(run())
    counts.record(
        f"halt_{way.replace(' ', '_')}",
        rounds=len(times),
        database="sqlite",
        # Two seconds and one; the rest is for a machine that has other things to do.
        faults={"late": sum(seconds > 3 + SLACK for seconds in times)},
        median_ms=round(statistics.median(times) * 1000),
        most_ms=round(max(times) * 1000),
    )


def _is_halted(source: RegistrySource, halted: bool) -> bool:
    return source.manifest is not None and source.manifest.state.halted == halted


def _switch(shell: Shell, command: str, *options: str) -> float:
    """Throw the switch; when the command was over, on the monotonic clock."""
    done = shell.run(command, "storm/reader", *options)
    assert done.returncode == 0, done
    return time.monotonic()
